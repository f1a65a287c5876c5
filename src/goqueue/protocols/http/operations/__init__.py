"""Routes for operators: probes, overview, events, traces, maintenance, pipelines, console."""

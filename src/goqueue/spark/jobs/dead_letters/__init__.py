"""Jobs over dead-letter queues: triage and redrive."""

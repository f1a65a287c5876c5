"""Traces: what happened to a message, from its publishing to its end, event by event."""

"""Delayed messages: the wheel that knows what is due, and what is kept of those that wait."""

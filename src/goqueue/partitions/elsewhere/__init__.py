"""Partitions that other nodes lead: asking their leaders, and what these tell of them."""

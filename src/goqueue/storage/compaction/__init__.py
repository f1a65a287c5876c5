"""Compaction of a log by key: what is due, the pass, and what it leaves."""

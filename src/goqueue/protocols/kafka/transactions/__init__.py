"""Producers and transactions; see README.md."""

"""The way out of a partition: fetches, stored messages, search."""

"""The way into a partition: batches and messages are checked, rewritten and appended."""

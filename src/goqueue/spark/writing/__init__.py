"""Writing to topics: rows as record batches, each task in a transaction of its own."""

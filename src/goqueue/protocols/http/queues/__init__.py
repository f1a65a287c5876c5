"""Routes of work queues: acknowledgements, statistics, dead-letter queues, delayed messages."""

"""GoQueue: a durable log and a work queue over the same stored bytes."""

__version__ = "0.1.0"

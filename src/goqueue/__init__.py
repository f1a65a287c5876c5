"""GoQueue: a durable log and a work queue over the same stored bytes."""

from importlib.metadata import version

__version__ = version("goqueue")

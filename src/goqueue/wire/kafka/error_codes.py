"""The codes by which responses say what went wrong, by Kafka's names."""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode"]

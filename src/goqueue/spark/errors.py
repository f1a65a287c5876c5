"""What the data source raises: sentences that a reader of a Spark stack trace can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from collections.abc import Iterable


class SparkSourceError(GoQueueError):
    """Something that the data source itself has to say."""


class OptionsError(SparkSourceError):
    """Options that make no sense; all of them, so that one run is enough to fix them."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "\n".join(["the options cannot be used:", *map("  - {}".format, self.problems)])
        )


class ColumnsError(SparkSourceError):
    """The schema asks for columns that a topic does not have."""


class BrokerAwayError(SparkSourceError):
    """No broker answered for as long as the options allow."""

    retriable = True


class LoginError(SparkSourceError):
    """The broker does not let this client in, or this client does not trust it."""


class BrokerRefusedError(SparkSourceError):
    """The broker answers with an error that trying again does not change."""


class TopicMissingError(SparkSourceError):
    """There is no such topic, or no such partition of it."""


class OffsetsError(SparkSourceError):
    """Offsets or times that the topic does not have."""


class DataLossError(SparkSourceError):
    """Messages that the query was to read are no longer there."""


class ValueFormatError(SparkSourceError):
    """A message's value is not what `valueFormat` says it is."""


class RowError(SparkSourceError):
    """A row cannot become a message."""


class TransactionLostError(SparkSourceError):
    """The broker has ended a task's transaction; its rows are not there."""


class SparkMissingError(SparkSourceError):
    """Spark, or something that it needs, is not on this machine."""


class LakeError(SparkSourceError):
    """A table on disk cannot be read, written or maintained."""


class VerificationError(SparkSourceError):
    """A copy does not hold what the original does."""

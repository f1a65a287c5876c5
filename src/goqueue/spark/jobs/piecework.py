"""The loop of a job that works in pieces: take the next, do it, write down that it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.spark import clock
from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.task_progress import rows_done

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, SparkSession

    from goqueue.spark.jobs.ledger import Ledger, Piece
    from goqueue.spark.jobs.link import TopicRange
    from goqueue.spark.jobs.report import Progress, Row

DEFAULT_PIECE_ROWS: Final = 1_000_000
_LOOK_AGAIN_S: Final = 1.0
"""How soon a job that follows a topic looks for more."""


class Written(NamedTuple):
    """What a piece came to."""

    rows: int
    size_bytes: int


class WritePiece(Protocol):
    """Does a piece: all of it or nothing, and once however often it is called for its number."""

    def __call__(self, piece: Piece, app: str) -> Written:
        """Write the rows of a piece as number `piece.number` of `app`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is done at once, and when a job ends."""

    piece_rows: int = DEFAULT_PIECE_ROWS
    fails_on_loss: bool = True
    """Whether messages that were deleted before they were processed are an error."""
    follows: bool = False
    """Process new messages too, until `stop` is set."""
    stop: threading.Event | None = None
    """Set by another thread to end a job that follows."""


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do, and how."""

    spark: SparkSession
    ledger: Ledger
    there: Callable[[], Sequence[TopicRange]]
    """What can be done now; asked again by a job that follows."""
    write: WritePiece
    progress: Progress
    stage: str
    pace: Pace


@dataclass(slots=True)
class Outcome:
    """What this run did."""

    rows: int = 0
    size_bytes: int = 0
    offsets: int = 0
    """What bars count: more than rows, where some were left out or are no messages."""
    pieces: int = 0
    seconds: float = 0.0
    first: dict[int, int] = field(default_factory=dict)
    """By partition, where this run began."""
    there: Sequence[TopicRange] = ()
    """What was there when it was last looked at."""
    warnings: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, int | float]:
        """The part of a report that all such jobs share."""
        return {
            "rows": self.rows,
            "bytes": self.size_bytes,
            "pieces": self.pieces,
            "seconds": round(self.seconds, 1),
            "rows_per_s": round(self.rows / self.seconds) if self.seconds > 0 else 0,
        }


def do_pieces(work: Work) -> Outcome:
    """Do all that is there, piece by piece; what a run before this one left under way comes first.

    Raises:
        DataLossError: what was to be done is gone.
    """
    outcome, pace = Outcome(), work.pace
    started = clock.monotonic_s()
    outcome.there = there = work.there()
    total = work.ledger.left(there)
    while True:
        piece, lost = work.ledger.next_piece(
            there, pace.piece_rows, fails_on_loss=pace.fails_on_loss
        )
        said = [f"{each} were deleted before they were processed" for each in lost]
        outcome.warnings += [each for each in said if each not in outcome.warnings]
        if piece is not None:
            _do(work, piece, outcome, total)
            continue
        if not pace.follows or _has_ended(pace.stop):
            break
        outcome.there = there = work.there()
        total = outcome.offsets + work.ledger.left(there)
    outcome.seconds = clock.monotonic_s() - started
    return outcome


def _do(work: Work, piece: Piece, outcome: Outcome, total: int) -> None:
    for each in piece.ranges:
        outcome.first.setdefault(each.partition, each.start)
    work.ledger.begin(piece)
    with rows_done(
        work.spark, work.progress, work.stage, total, before=outcome.offsets, here=piece.size
    ):
        written = work.write(piece, work.ledger.entries.app)
    work.ledger.finish(*written)
    outcome.rows += written.rows
    outcome.size_bytes += written.size_bytes
    outcome.offsets += piece.size
    outcome.pieces += 1


def _has_ended(stop: threading.Event | None) -> bool:
    """Wait for a moment; whether the job is to end."""
    if stop is not None:
        return stop.wait(_LOOK_AGAIN_S)
    try:
        clock.sleep(_LOOK_AGAIN_S)
    except KeyboardInterrupt:  # between two pieces: nothing is left half done
        return True
    return False


def message_bytes() -> Column:
    """What a message's key and value take."""
    sizes = (F.coalesce(F.octet_length(each), F.lit(0)) for each in ("key", "value"))
    return sum(sizes, F.lit(0))


def refuse(problems: Sequence[str]) -> None:
    """Raise all of them together.

    Raises:
        OptionsError: there are some.
    """
    if problems:
        raise OptionsError(problems)


def partition_rows(ledger: Ledger, outcome: Outcome) -> list[Row]:
    """A row a partition: where this run began, where it got, and how much is left."""
    done = ledger.entries.done
    rows: list[Row] = []
    for each in sorted(outcome.there, key=lambda each: each.partition):
        at = done.get(each.partition, each.start)
        rows.append(
            {
                "partition": each.partition,
                "from": outcome.first.get(each.partition, at),
                "to": at,
                "lag": max(0, each.end - at),
            }
        )
    return rows

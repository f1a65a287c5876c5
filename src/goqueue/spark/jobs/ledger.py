"""What a job that works in pieces has done, so that it can be killed at any moment and go on.

A piece is some offsets of each partition. It is in the ledger, with its number, before it begins: a
job that was killed does the same piece again under the same number, and whoever takes the rows
counts a number once. Without a file a job has a ledger all the same, and cannot be continued.
"""

from __future__ import annotations

import fcntl
import json
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import DataLossError, OptionsError
from goqueue.spark.jobs.link import TopicRange
from goqueue.spark.lake.disk import Disk
from goqueue.spark.reading.admission import admit_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FORMAT: Final = 1
FILE_NAME: Final = "ledger.json"


@dataclass(frozen=True, slots=True)
class Piece:
    """What is done at once: all of it counts, or nothing."""

    number: int
    ranges: tuple[TopicRange, ...]

    @property
    def size(self) -> int:
        """At most so many rows."""
        return sum(each.size for each in self.ranges)


@dataclass(slots=True)
class Entries:
    """The ledger's contents, as they are stored."""

    identity: dict[str, object]
    """What the job does; another job must not go on with its pieces."""
    app: str = field(default_factory=lambda: f"job-{uuid.uuid4()}")
    """Who writes: with a piece's number, what makes it count once."""
    next_number: int = 0
    done: dict[int, int] = field(default_factory=dict)
    """By partition, the offset after the last that is done. Only grows."""
    under_way: Piece | None = None
    settled: list[TopicRange] | None = None
    """What the job is about, where that is settled once and for all."""
    rows: int = 0
    size_bytes: int = 0
    notes: dict[str, object] = field(default_factory=dict)
    """What else a job has to remember."""


class Ledger:
    """The entries, and the file that they are kept in."""

    def __init__(
        self, entries: Entries, file: Path | None = None, disk: Disk | None = None
    ) -> None:
        self.entries: Final = entries
        self._file = file
        self._disk: Final = disk or Disk()

    # --- Pieces ----------------------------------------------------------------------------------

    def next_piece(
        self, there: Sequence[TopicRange], max_rows: int, *, fails_on_loss: bool = True
    ) -> tuple[Piece | None, list[str]]:
        """What to do next of what is there, and what was lost meanwhile; None when all is done.

        Raises:
            DataLossError: offsets that are not done yet are gone.
        """
        lost = self._lost(there)
        if lost and fails_on_loss:
            raise DataLossError(
                f"{', '.join(lost)} were deleted before they were processed; to continue with "
                "the rest, set fail_on_data_loss=False (--allow-data-loss)"
            )
        if self.entries.under_way is not None:
            return self.entries.under_way, lost
        done = self.entries.done
        starts = {each.partition: max(each.start, done.get(each.partition, 0)) for each in there}
        ends = {each.partition: max(each.end, starts[each.partition]) for each in there}
        ranges = cut_piece(starts, ends, max_rows)
        return (Piece(self.entries.next_number, ranges) if ranges else None), lost

    def _lost(self, there: Sequence[TopicRange]) -> list[str]:
        """What is not there any more of what comes next, or is under way."""
        following = dict(self.entries.done)
        if self.entries.under_way is not None:
            following |= {each.partition: each.start for each in self.entries.under_way.ranges}
        return [
            f"offsets {at} to {each.start - 1} of partition {each.partition}"
            for each in there
            if (at := following.get(each.partition)) is not None and at < each.start
        ]

    def left(self, there: Sequence[TopicRange]) -> int:
        """How many of the offsets that are there are not done."""
        done = self.entries.done
        return sum(
            max(0, each.end - max(each.start, done.get(each.partition, 0))) for each in there
        )

    def begin(self, piece: Piece) -> None:
        """Written down before anything of it is done."""
        self.entries.under_way = piece
        self.store()

    def finish(self, rows: int, size_bytes: int) -> None:
        """The piece under way counts."""
        entries = self.entries
        piece = entries.under_way
        if piece is None:
            raise RuntimeError("no piece is under way")
        entries.done |= {each.partition: each.end for each in piece.ranges}
        entries.next_number = piece.number + 1
        entries.under_way = None
        entries.rows += rows
        entries.size_bytes += size_bytes
        self.store()

    # --- The file --------------------------------------------------------------------------------

    def store(self) -> None:
        """On disk when this returns, whole: a number must not be used again with other offsets."""
        if self._file is not None:
            text = json.dumps({"format": _FORMAT, **asdict(self.entries)}, indent=1)
            self._disk.replace(self._file, text.encode())


def cut_piece(
    starts: Mapping[int, int], ends: Mapping[int, int], max_rows: int
) -> tuple[TopicRange, ...]:
    """The next offsets of each partition, at most `max_rows` of them; none when there are none."""
    places = {TopicPartition("", number): at for number, at in starts.items()}
    granted = admit_offsets(
        places, {TopicPartition("", number): at for number, at in ends.items()}, max_rows
    )
    return tuple(
        TopicRange(number, starts[number], end)
        for (_, number), end in sorted(granted.items())
        if end > starts[number]
    )


@contextmanager
def open_ledger(
    checkpoint: str | Path | None, identity: Mapping[str, object], disk: Disk | None = None
) -> Iterator[Ledger]:
    """The ledger of a job in its checkpoint folder, new or as it was left; only one run has it.

    Raises:
        OptionsError: it is another job's, or another run has it.
    """
    if checkpoint is None:
        yield Ledger(Entries(dict(identity)))
        return
    folder = Path(checkpoint)
    (disk or Disk()).make_folder(folder)
    with (folder / "lock").open("w") as lock:
        _take(lock, folder)
        file = folder / FILE_NAME
        entries = _load(file, identity) if file.exists() else Entries(dict(identity))
        yield Ledger(entries, file, disk)


def _take(lock: TextIO, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise OptionsError([f"checkpoint: another run is using {folder} right now"]) from error


def _load(file: Path, identity: Mapping[str, object]) -> Entries:
    try:
        found = json.loads(file.read_text())
        if found.pop("format") != _FORMAT:
            raise OptionsError([f"checkpoint: {file} was written by another version"])
        under_way = found.pop("under_way")
        settled = found.pop("settled")
        done = {int(number): at for number, at in found.pop("done").items()}
        entries = Entries(
            **found,
            done=done,
            under_way=under_way and Piece(under_way["number"], _ranges(under_way["ranges"])),
            settled=None if settled is None else list(_ranges(settled)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OptionsError([f"checkpoint: {file} cannot be read ({error!r})"]) from error
    differing = [
        f"{name} was {entries.identity.get(name)!r} and is {identity.get(name)!r}"
        for name in sorted({*entries.identity, *identity})
        if entries.identity.get(name) != identity.get(name)
    ]
    if differing:
        raise OptionsError(
            [f"checkpoint: {file.parent} belongs to another job: {'; '.join(differing)}"]
        )
    return entries


def _ranges(found: list[dict[str, int]]) -> tuple[TopicRange, ...]:
    return tuple(TopicRange(**each) for each in found)

"""Offsets without a message are counted as long as they are in the log, and no longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import CorruptQueueStateError
from goqueue.partitions import hidden_offsets
from goqueue.partitions.hidden_offsets import HiddenOffsets

BATCH = st.tuples(st.integers(1, 5), st.sampled_from(["full", "empty", "control"]))


def batch(offsets: int, kind: str) -> Any:
    return SimpleNamespace(
        last_offset_delta=offsets - 1,
        count={"full": offsets, "empty": 0, "control": 1}[kind],
        is_control=kind == "control",
    )


@given(st.lists(BATCH, max_size=30), st.integers(0, 100))
def test_what_is_hidden_is_what_a_list_of_offsets_says(
    batches: list[tuple[int, str]], log_start: int
) -> None:
    found, hidden, end = HiddenOffsets(), [], 0
    for offsets, kind in batches:
        found.note(batch(offsets, kind), end)
        hidden += [at for at in range(end, end + offsets) if kind != "full"]
        end += offsets
    assert found.count == len(hidden)
    found.forget_before(log_start)
    found.check_invariants()
    assert found.count == len([at for at in hidden if at >= log_start])
    loaded = HiddenOffsets()
    loaded.load(found.dump())
    assert (loaded.count, len(loaded)) == (found.count, len(found))


def test_a_batch_of_which_a_part_is_delayed_hides_that_part() -> None:
    found = HiddenOffsets()
    part = SimpleNamespace(last_offset_delta=9, count=7, is_control=False)
    found.note(part, 0)  # type: ignore[arg-type]  # as much of a batch as it looks at
    assert found.count == 3


def test_at_the_bound_the_oldest_ranges_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_offsets, "_MAX_RANGES", 3)
    found = HiddenOffsets()
    for number in range(10):
        found.note(batch(1, "empty"), 10 * number)
    found.check_invariants()
    assert (found.count, len(found)) == (10, 3)
    found.forget_before(1000)
    assert (found.count, len(found)) == (0, 0)


def test_a_damaged_snapshot_is_refused() -> None:
    with pytest.raises(CorruptQueueStateError):
        HiddenOffsets().load(b"12345")

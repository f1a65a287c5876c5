"""Replicas are compared byte for byte below the watermark."""

from __future__ import annotations

import pytest

from goqueue.records import Record, encode
from support.replicas import differences

TOPIC = "t"


def batch(offset, value=b"v"):
    return bytes(encode([Record(offset, 0, None, value, ())]))


def write(folder, *batches):
    place = folder / "topics" / TOPIC / "id" / "0"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{0:020d}.log").write_bytes(b"".join(batches))


@pytest.fixture
def folders(tmp_path):
    found = {number: tmp_path / str(number) for number in (1, 2)}
    for folder in found.values():
        write(folder, batch(0), batch(1), batch(2))
    return found


def told(folders, end=3):
    return list(differences(folders, TOPIC, {0: end}))


def test_equal_replicas_have_no_difference(folders):
    assert told(folders) == []


def test_one_other_byte_is_a_difference(folders):
    write(folders[2], batch(0), batch(1, b"w"), batch(2))
    assert told(folders) == ["t-0: the batch before 2 is not the same everywhere"]


def test_a_missing_batch_is_a_difference(folders):
    write(folders[2], batch(0), batch(1))
    assert told(folders) == ["t-0: nodes [2] lack the batch before 3"]


def test_what_is_above_the_watermark_may_differ(folders):
    write(folders[2], batch(0), batch(1), batch(2, b"w"))
    assert told(folders, end=2) == []


def test_a_log_that_ends_below_its_watermark_is_told(folders):
    assert told(folders, end=7) == ["t-0 ends at 3, its watermark is 7"]


def test_segments_may_end_elsewhere(folders):
    write(folders[2], batch(0))
    place = folders[2] / "topics" / TOPIC / "id" / "0"
    (place / f"{1:020d}.log").write_bytes(batch(1) + batch(2))
    assert told(folders) == []

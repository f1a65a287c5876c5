"""Each target takes some hundred damaged inputs; `make fuzz` tries as many as there is time for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from fuzz import driver, live, sanitized
from fuzz.mutations import MAX_BYTES, mutate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INPUTS = 200


@pytest.fixture(autouse=True, scope="module")
def _broker_is_closed() -> Iterator[None]:
    yield
    live.close()


@pytest.mark.parametrize("name", driver.TARGETS)
def test_damaged_inputs_are_refused_or_answered(name: str) -> None:
    target = driver.load(name)
    source = driver.inputs(target, seed=1)
    for _ in range(INPUTS):
        target.check(next(source))
    live.expect_well()


@pytest.mark.skipif(sanitized.compiler() is None, reason="no gcc with AddressSanitizer")
def test_the_compiled_codec_takes_damaged_batches_under_the_sanitizer(tmp_path: Path) -> None:
    given = ("--target", "records", "--minutes", "0.02", "--seed", "1")
    running = sanitized.start(tmp_path, *given)
    assert sanitized.finish(running, tmp_path, tmp_path) == 0
    assert (tmp_path / "current").read_bytes()


def test_the_same_seed_makes_the_same_inputs() -> None:
    seeds = [b"GET / HTTP/1.1\r\n\r\n", bytes(range(256))]
    first = [mutate(random.Random(7), seeds) for _ in range(50)]
    assert first == [mutate(random.Random(7), seeds) for _ in range(50)]
    assert any(each not in seeds for each in first)


def test_inputs_stay_within_their_bound() -> None:
    rng = random.Random(3)
    assert all(len(mutate(rng, [b"x" * MAX_BYTES])) <= MAX_BYTES for _ in range(50))

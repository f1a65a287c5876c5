"""Random faults for many seeds: no invariant breaks, and after healing everything is whole."""

from __future__ import annotations

import pytest

from simulation.faults import run

SEEDS = 500
CHUNK = 50
SLOW_SEEDS = 10_000
SLOW_CHUNK = 500


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    committed = sum(run(seed).oracle.commits for seed in range(first, first + CHUNK))
    assert committed > 50 * CHUNK, "too little happened for the run to show anything"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, SLOW_SEEDS, SLOW_CHUNK))
def test_none_of_many_seeds_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + SLOW_CHUNK):
        run(seed)


def test_a_seed_is_the_same_run_every_time() -> None:
    runs = [run(7, traced=True).world for _ in range(2)]
    assert runs[0].trace == runs[1].trace
    assert runs[0].steps == runs[1].steps

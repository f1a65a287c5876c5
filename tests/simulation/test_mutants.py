"""Every planted mistake is found: by the seed that is known to, and by hunting from the first."""

from __future__ import annotations

import pytest

from goqueue.model.errors import InvariantError
from simulation.faults import run
from simulation.mutants import MUTANTS, Mutant
from simulation.oracle import ViolationError

HUNTED = 200
"""Each mistake is found within so many seeds."""


def names(mutant: Mutant) -> str:
    return mutant.name


@pytest.mark.parametrize("mutant", MUTANTS, ids=names)
def test_a_mistake_is_found_by_its_seed(mutant: Mutant) -> None:
    with mutant.applied() as mistakes, pytest.raises((ViolationError, InvariantError)):
        run(mutant.seed, mistakes)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=names)
def test_a_mistake_is_found_within_two_hundred_seeds(mutant: Mutant) -> None:
    for seed in range(HUNTED):
        with mutant.applied() as mistakes:
            try:
                run(seed, mistakes)
            except (ViolationError, InvariantError):
                return
    pytest.fail(f"no seed below {HUNTED} finds that {mutant.name}")


def test_there_are_enough_mistakes_and_each_is_found_early_enough() -> None:
    assert len(MUTANTS) >= 15
    assert all(0 <= mutant.seed < HUNTED for mutant in MUTANTS)

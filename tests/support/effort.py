"""How much a run tries: an ordinary run a part of the cases, a thorough one all of them.

`make test` is ordinary; `make test-thorough`, which the nightly workflow calls, is thorough.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Case = TypeVar("Case")

THOROUGH: Final = os.environ.get("GOQUEUE_TEST_THOROUGH", "") not in {"", "0"}


def sampled(cases: Sequence[Case], most: int) -> list[Case]:
    """All cases of a thorough run; of an ordinary one so many, evenly spread, with both ends."""
    if THOROUGH or len(cases) <= most:
        return list(cases)
    last = len(cases) - 1
    return [cases[round(number * last / (most - 1))] for number in range(most)]


def examples(count: int) -> int:
    """How many examples a property test tries: two in five of them in an ordinary run."""
    return count if THOROUGH else max(count * 2 // 5, 10)

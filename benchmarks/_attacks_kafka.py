"""Attacks on the Kafka listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks._attacks import Attack

ATTACKS: Final[list[Attack]] = []

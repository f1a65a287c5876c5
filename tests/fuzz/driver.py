"""Fuzzing: damaged inputs into every parser that strangers can reach. `make fuzz MINUTES=10`.

A target is a module with two functions: `seeds()` returns good inputs, `check(data)` gives one to
the part under test and raises when it does not take it well. Inputs follow from `--seed`, so a run
can be repeated; the input of a finding is kept in `build/fuzz/` and tried again with

    python -m fuzz.driver --target http --input build/fuzz/http-0123abcd
"""

# ruff: noqa: T201 - a command prints

from __future__ import annotations

import argparse
import hashlib
import importlib
import itertools
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from fuzz import live, sanitized, target_records
from fuzz.mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TARGETS: Final = (
    "http",
    "grpc_bodies",
    "grpc_frames",
    "kafka",
    "kafka_http",
    "kafka_login",
    "records",
)
FINDINGS: Final = Path("build/fuzz")
_ROUND: Final = 100
"""Inputs of one target before the next one has its turn and the broker is looked at."""


class Target(Protocol):
    """A part that takes bytes of strangers."""

    def seeds(self) -> list[bytes]:
        """Good inputs, which are tried as they are first."""
        ...

    def check(self, data: bytes) -> None:
        """Try one input; raises when it is not taken well."""
        ...


def load(name: str) -> Target:
    """The target of that name."""
    return cast("Target", importlib.import_module(f"fuzz.target_{name}"))


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """The seeds of a target, then copies of them with changes, without end."""
    seeds = target.seeds()
    yield from seeds
    rng = random.Random(seed)
    while True:
        yield mutate(rng, seeds)


def try_inputs(name: str, target: Target, source: Iterator[bytes], count: int) -> int:
    """Try so many; returns how many were findings, which are kept and printed."""
    found = 0
    tried: list[bytes] = []
    current = os.environ.get(sanitized.CURRENT)
    for data in itertools.islice(source, count):
        tried.append(data)
        if current is not None:
            Path(current).write_bytes(data)
        try:
            target.check(data)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            found += 1
            _keep(name, [data])
    try:
        live.expect_well()
    except live.FindingError:
        # Which input it was is not known: any of this round.
        found += 1
        _keep(name, tried)
        live.close()
    return found


def _keep(name: str, tried: Sequence[bytes]) -> None:
    traceback.print_exc()
    FINDINGS.mkdir(parents=True, exist_ok=True)
    for data in tried:
        path = FINDINGS / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}"
        path.write_bytes(data)
        print(f"kept: {path}")


def _run(names: Sequence[str], minutes: float, seed: int) -> int:
    until_s = time.monotonic() + 60 * minutes
    sources = [(name, load(name), inputs(load(name), seed)) for name in names]
    tried, found = dict.fromkeys(names, 0), 0
    while time.monotonic() < until_s:
        for name, target, source in sources:
            found += try_inputs(name, target, source, _ROUND)
            tried[name] += _ROUND
    for name, count in tried.items():
        print(f"{name}: {count} inputs")
    print(f"seed {seed}: {found} findings")
    return found


def _run_beside(names: Sequence[str], minutes: float, seed: int) -> int:
    """Fuzz; the compiled codec in a process of its own, with AddressSanitizer if there is one."""
    if "records" not in names or target_records.LIBRARY in os.environ:
        return _run(names, minutes, seed)
    if sanitized.compiler() is None:
        print("no gcc with AddressSanitizer here: the compiled codec is tried without it")
        return _run(names, minutes, seed)
    FINDINGS.mkdir(parents=True, exist_ok=True)
    folder = FINDINGS / "sanitized"
    given = ("--target", "records", "--minutes", str(minutes), "--seed", str(seed))
    running = sanitized.start(folder, *given)
    others = [name for name in names if name != "records"]
    found = _run(others, minutes, seed) if others else 0
    return found + sanitized.finish(running, folder, FINDINGS)


def main() -> int:
    """Fuzz, or try one input again; the exit code says whether there was a finding."""
    parser = argparse.ArgumentParser(description="Fuzz what strangers can reach.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--input", type=Path)
    given = parser.parse_args()
    names = given.target or TARGETS
    try:
        if given.input is not None:
            name = names[0]
            return try_inputs(name, load(name), iter([given.input.read_bytes()]), 1)
        return min(_run_beside(names, given.minutes, given.seed), 1)
    finally:
        live.close()


if __name__ == "__main__":
    sys.exit(main())

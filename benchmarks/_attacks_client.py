"""The attacker: a process (see `_client.py`) whose threads make one attempt after the other.

It yields to everybody else on the machine: an attacker has a machine of its own, and the broker's
cores are not what is attacked here.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import Counter
from typing import Any, Final

from benchmarks import (
    _attacks_bombs,
    _attacks_grpc,
    _attacks_http,
    _attacks_kafka,
    _attacks_schemas,
)
from benchmarks._attacks import CLOSED, Target
from benchmarks._client import serve_calls

_FILES: Final = (
    _attacks_http,
    _attacks_schemas,
    _attacks_bombs,
    _attacks_kafka,
    _attacks_grpc,
)
ALL: Final = sorted((each for file in _FILES for each in file.ATTACKS), key=lambda a: a.number)
_NICENESS: Final = 10
_ANSWER_CHARACTERS: Final = 100


def _find(name: str) -> Any:
    return next(attack for attack in ALL if attack.name == name)


def prepare(name: str, target: dict[str, int]) -> None:
    """What the attack needs before it can begin."""
    _find(name).prepare(Target(**target))


def attack(name: str, target: dict[str, int], seconds: float, connections: int) -> dict[str, int]:
    """Attack for so long, from so many threads; how often which answer was seen."""
    run, where = _find(name).run, Target(**target)
    until_s = time.monotonic() + seconds
    answers: Counter[str] = Counter()

    def repeat() -> None:
        while time.monotonic() < until_s:
            try:
                answer = run(where)
            except OSError as error:
                answer = f"{CLOSED}: {error}" if isinstance(error, ConnectionError) else str(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                answer = f"the attempt failed: {error!r}"
            answers[answer[:_ANSWER_CHARACTERS]] += 1

    threads = [threading.Thread(target=repeat) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(answers)


if __name__ == "__main__":
    os.nice(_NICENESS)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    serve_calls({"prepare": prepare, "attack": attack})

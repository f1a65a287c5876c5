"""Whether a name is that of a user cannot be told by how long a wrong login takes."""

from __future__ import annotations

import secrets
import statistics
import time
from typing import TYPE_CHECKING

import pytest

from goqueue.access.keys import Mechanism, keys_from_password
from support.guarded import OUTSIDERS, ROLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.guarded import GuardedServer

PAIRS = 15
ATTEMPTS = 6
"""One of them within noise is enough: a check that derives no key for an unknown name takes less
than a tenth of the time in all of them."""
NOISE = 1.5


ITERATIONS = 16_384
SALT_BYTES = 40


@pytest.fixture(scope="module", autouse=True)
def _slow_users(server: GuardedServer) -> None:
    """Users whose keys an administrator's client has made, with values of its own."""
    for role in (*ROLES, *OUTSIDERS):
        keys = {
            mechanism: keys_from_password(
                mechanism, server.passwords[role], secrets.token_bytes(SALT_BYTES), ITERATIONS
            )
            for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
        }
        server.run(server.broker.users.alter(role, keys))


def _ratio(check: Callable[[str], object]) -> float:
    """How many times longer a wrong login of a known name takes than of an unknown one."""
    known: list[float] = []
    unknown: list[float] = []
    for number in range(PAIRS):
        for name, times in (("admin", known), (f"nobody-{number}", unknown)):
            began = time.perf_counter()
            check(name)
            times.append(time.perf_counter() - began)
    return statistics.median(known) / statistics.median(unknown)


def _check(check: Callable[[str], object]) -> None:
    check("admin")
    found: list[float] = []
    for _ in range(ATTEMPTS):
        found.append(_ratio(check))
        if 1 / NOISE < found[-1] < NOISE:
            return
    raise AssertionError(f"a known name takes {found} times as long as an unknown one")


def test_by_password(server: GuardedServer) -> None:
    """What PLAIN, HTTP and gRPC ask; without the delay of many wrong logins, which is longer."""

    def check(name: str) -> None:
        assert not server.run(server.broker.users.has_password(name, "wrong"))

    _check(check)


def test_by_the_salt_and_iterations_that_scram_tells(server: GuardedServer) -> None:
    """A decoy has as many iterations as users have, a salt as long, and the same each time."""

    for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        users = server.broker.users
        known, unknown = (users.keys_for_login(mechanism, name) for name in ("admin", "nobody"))
        assert (known.iterations, len(known.salt)) == (unknown.iterations, len(unknown.salt))
        assert users.keys_for_login(mechanism, "nobody").salt == unknown.salt

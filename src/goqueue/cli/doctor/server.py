"""Checks of the server that commands talk to."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

import goqueue
from goqueue.cli.doctor.findings import Finding, failure, ok, warning
from goqueue.cli.errors import CliError, RefusedError
from goqueue.cli.times import show_span
from goqueue.protocols.http.operations.operation_shapes import Health, Readiness, Version

if TYPE_CHECKING:
    from goqueue.cli.api import Api

_UNAUTHORIZED: Final = 401
_SKEW_S: Final = 1.0
_LARGE_SKEW_S: Final = 60.0


def check_server(api: Api) -> list[Finding]:
    """Everything that can be asked of it; one finding where it is not there."""
    server = " and ".join(api.target.servers)
    try:
        version = api.get(Version, "/version")
    except RefusedError as error:
        if error.status == _UNAUTHORIZED:
            advice = "`goqueue login` keeps a key that the server accepts"
            return [failure("server", f"{server} refuses: {error}", advice)]
        return [failure("server", f"{server} answers: {error}", "look into the server's log")]
    except CliError as error:
        return [
            failure(
                "server",
                str(error),
                "start one with `goqueue server`, or name another with --server",
            )
        ]
    found = [ok("server", f"{server} answers"), _version(version)]
    for check in (_ready, _clock):
        try:
            found.append(check(api))
        except CliError as error:
            found.append(warning("server", str(error), "look into the server's log"))
    return found


def _version(version: Version) -> Finding:
    mine, theirs = _release(goqueue.__version__), _release(version.version)
    found = f"client {goqueue.__version__}, server {version.version}"
    if mine == theirs:
        return ok("versions", found)
    older = "client" if mine < theirs else "server"
    return warning("versions", found, f"upgrade the {older}: both should be the same release")


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:2])


def _ready(api: Api) -> Finding:
    status, answer = api.probe(Readiness, "/readyz?verbose=true")
    failed = {name: said for name, said in (answer.checks or {}).items() if said != "ok"}
    if status == 200 and not failed:
        return ok("readiness", "serves clients")
    said = "; ".join(f"{name}: {text}" for name, text in failed.items()) or answer.status
    if status == 200:
        return warning("readiness", said, "`goqueue cluster health` says more")
    return failure("readiness", said, "`goqueue cluster health` and the server's log say more")


def _clock(api: Api) -> Finding:
    """The difference between the clocks, without the way there and back."""
    before_s = time.time()
    _, health = api.probe(Health, "/health")
    after_s = time.time()
    skew_s = health.timestamp / 1000 - (before_s + after_s) / 2
    leeway_s = (after_s - before_s) / 2
    if health.clock != "ok":
        return failure("clock", health.clock, "fix the clock, then `goqueue maintenance resume`")
    if abs(skew_s) <= _SKEW_S + leeway_s:
        return ok("clock", f"the server's differs by {abs(skew_s) * 1000:.0f} ms")
    where = "ahead of" if skew_s > 0 else "behind"
    span = show_span(abs(skew_s))
    make = failure if abs(skew_s) > _LARGE_SKEW_S else warning
    return make(
        "clock",
        f"the server's is {span} {where} this machine's",
        "run a time service (chrony, systemd-timesyncd) on both: delays, retention and tokens "
        "go by the clock",
    )

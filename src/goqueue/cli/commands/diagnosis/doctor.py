"""`goqueue doctor`: what is wrong with this machine and its server, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.doctor import machine
from goqueue.cli.doctor.findings import Finding, Level, failure
from goqueue.cli.doctor.ports import check_port, owner_of
from goqueue.cli.doctor.server import check_server
from goqueue.cli.errors import CliError
from goqueue.cli.output import Format, print_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.server.config import Config

_MARKS = {Level.OK: "ok", Level.WARNING: "warning", Level.FAILURE: "FAILURE"}

app = typer.Typer()


@command(app, "doctor")
def examine(
    call: Call,
    *,
    config_file: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="The configuration file of the server on this machine."
        ),
    ] = None,
) -> None:
    """Check the server and this machine, and say what to do; the exit code is 1 after a failure."""
    found = []
    for finding in _findings(call, config_file):
        found.append(finding)
        if call.output is Format.TABLE:
            _print(finding)
    failures = sum(each.level is Level.FAILURE for each in found)
    warnings = sum(each.level is Level.WARNING for each in found)
    if call.output is Format.TABLE:
        print_text(f"\n{len(found)} checks: {failures} failed, {warnings} with a warning")
    else:
        checks = [each._asdict() for each in found]
        call.show({"failures": failures, "warnings": warnings, "checks": checks})
    if failures:
        raise typer.Exit(1)


def _findings(call: Call, config_file: str | None) -> Iterator[Finding]:
    """Every check, in the order in which they are printed."""
    try:
        of_server = check_server(call.api)
    except CliError as error:  # it cannot be told which server
        of_server = [failure("server", str(error), "name one with --server")]
    yield from of_server
    yield machine.check_python()
    config = _config(config_file)
    if isinstance(config, Finding):
        yield config
    else:
        yield from _of_a_server_here(call, config, of_server[0])
    yield machine.check_descriptors()
    yield machine.check_etcd()
    yield machine.check_java()
    yield machine.check_spark()


def _of_a_server_here(call: Call, config: Config, reached: Finding) -> Iterator[Finding]:
    """Ports and disk: of a server on another machine nothing of that is here."""
    is_there = reached.level is Level.OK
    if is_there and not _is_local(call.api.server):
        return
    server = _local_process(call.api.server) if is_there else None
    for name in ("kafka", "http", "grpc"):
        address = getattr(config.listeners, name)
        yield check_port(name, address.host, address.port, server)
    yield machine.check_space(config.broker.data_dir)
    yield machine.check_speed(config.broker.data_dir)


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _local_process(server: str) -> str:
    """The process of the server that commands talk to; the empty text if it cannot be seen."""
    return owner_of(urlsplit(server).port or 80) or ""


def _config(path: str | None) -> Config | Finding:
    """The settings that a server would have here."""
    from goqueue.model.errors import GoQueueError  # noqa: PLC0415 - start-up stays light
    from goqueue.server.config_load import load_config  # noqa: PLC0415 - as above

    try:
        return load_config([] if path is None else ["--config", path])
    except GoQueueError as error:
        return failure("configuration", str(error), "fix it: `goqueue config effective` shows it")


def _print(finding: Finding) -> None:
    line = f"{_MARKS[finding.level]:<8} {finding.check:<18} {finding.found}"
    print_text(printable(line))
    if finding.advice is not None:
        print_text(printable(f"{'':<27} -> {finding.advice}"))

"""`goqueue debug`: what somebody needs who looks at a problem from afar."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.debug.bundle import write_bundle
from goqueue.cli.debug.collecting import from_machine, from_server
from goqueue.cli.debug.known_secrets import known_secrets
from goqueue.cli.debug.redaction import Redactor
from goqueue.cli.output import Format, note
from goqueue.cli.progress_bars import Bars
from goqueue.cli.times import show_size
from goqueue.model.errors import GoQueueError
from goqueue.server.config_load import load_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.cli.debug.collecting import Part
    from goqueue.server.config import Config

app = typer.Typer(no_args_is_help=True, help="Collect what is needed to look into a problem.")


@command(app, "bundle")
def bundle(
    call: Call,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The archive. (default: goqueue-debug-TIME.tar.gz)"),
    ] = None,
    *,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="PATH", help="The server's log. (default: systemd's journal)"
        ),
    ] = None,
    config_file: Annotated[
        str | None,
        typer.Option("--config", metavar="PATH", help="The configuration file of the server."),
    ] = None,
) -> None:
    """Write versions, settings, metrics, health, topics, groups and the log to an archive.

    Secrets are removed: those of the contexts, the environment and the configuration wherever they
    occur, and whatever is named or looks like a password, a key or a token. No messages, users or
    keys are asked for. Topics, groups and addresses stay: look at it before you send it.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = file or Path(f"goqueue-debug-{stamp}.tar.gz")
    config, trouble = _config(config_file)
    redactor = Redactor(known_secrets(os.environ, config))
    parts = itertools.chain(from_machine(config, trouble, log), from_server(call.api))
    with Bars() as bars:
        entries = write_bundle(path, _shown(parts, bars), redactor)
    if call.output is Format.TABLE:
        rows = [
            {"file": each.file, "size": show_size(each.size_bytes), "note": each.note}
            for each in entries
        ]
        call.show(rows)
        size = show_size(path.stat().st_size)
        note(f"{path} ({size}); secrets removed: {redactor.count}. Look at it before you send it.")
    else:
        files = [each._asdict() for each in entries]
        call.show({"file": str(path), "redacted": redactor.count, "files": files})


def _shown(parts: Iterable[Part], bars: Bars) -> Iterator[Part]:
    for number, part in enumerate(parts, 1):
        bars("collected", number)
        yield part


def _config(path: str | None) -> tuple[Config | None, str | None]:
    try:
        return load_config([] if path is None else ["--config", path]), None
    except GoQueueError as error:
        return None, str(error)

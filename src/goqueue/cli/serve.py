"""`goqueue server`: run a broker until it is told to stop. Little is imported before it must be."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.server.errors import CANNOT_START

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY: Final = """\
Run a broker. SIGTERM or Ctrl-C stops it in order, a second one at once.

Every setting is a flag, an environment variable and a key of the file that --config names."""


def main(arguments: Sequence[str]) -> None:
    """Run a server with these flags; ends the process with an exit code."""
    if {"--help", "-h"} & set(arguments):
        _show_help()
    else:
        _run(arguments)


def _run(arguments: Sequence[str]) -> None:
    gc.disable()  # imports make no garbage worth looking for; `serve` turns it on again
    try:
        from goqueue.server.config_load import load_config  # noqa: PLC0415 - not for the help

        config = load_config(arguments)
        from goqueue.server.logs import set_up_logging  # noqa: PLC0415 - only with a good config

        set_up_logging(config.logging)
        if config.cluster.enabled:
            from goqueue.server.supervision.supervisor import supervise  # noqa: PLC0415 - not alone

            supervise(config, arguments)
            return
        from goqueue.server.process import serve  # noqa: PLC0415 - the heaviest of all

        serve(config)
    except GoQueueError as error:
        sys.stderr.write(f"goqueue: {error}\n")
        sys.exit(CANNOT_START)


def _show_help() -> None:
    from goqueue.server.config_docs import flag_help  # noqa: PLC0415 - for the help alone

    sys.stdout.write(f"Usage: goqueue server [FLAGS]\n\n{SUMMARY}\n\nFlags:\n{flag_help()}\n")

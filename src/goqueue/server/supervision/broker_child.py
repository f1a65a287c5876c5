"""The broker of a node of a cluster, as the supervisor runs it, with the flags of a server."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError, MetadataUnavailableError
from goqueue.server.errors import CANNOT_START, STORE_AWAY

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Run a broker with these flags; ends the process with an exit code."""
    gc.disable()  # imports make no garbage worth looking for; `serve` turns it on again
    try:
        from goqueue.server.config_load import load_config  # noqa: PLC0415 - errors are told below
        from goqueue.server.logs import set_up_logging  # noqa: PLC0415 - as above
        from goqueue.server.process import serve  # noqa: PLC0415 - as above

        config = load_config(arguments)
        set_up_logging(config.logging)
        serve(config)
    except MetadataUnavailableError as error:
        sys.stderr.write(f"goqueue: {error}\n")
        sys.exit(STORE_AWAY)
    except GoQueueError as error:
        sys.stderr.write(f"goqueue: {error}\n")
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main(sys.argv[1:])

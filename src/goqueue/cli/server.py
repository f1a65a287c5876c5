"""`goqueue server`: run a broker until it is told to stop."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.output import fail

CANNOT_START = 2
"""The exit code of a server that could not start as it was told to."""


def run_server(
    data_dir: Annotated[Path, typer.Option(help="Where everything is kept.")] = Path("data"),
    kafka_port: Annotated[int, typer.Option(help="For Kafka clients.")] = 9092,
    http_port: Annotated[int, typer.Option(help="For probes and metrics.")] = 8080,
    fsync: Annotated[
        str, typer.Option(help="When acknowledged messages are on the disk.")
    ] = "interval",
) -> None:
    """Run a broker. SIGTERM or Ctrl-C stops it in order; a second one at once."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    from goqueue.model.errors import GoQueueError  # noqa: PLC0415 - start-up stays light
    from goqueue.protocols.kafka.settings import ListenerSettings  # noqa: PLC0415 - as above
    from goqueue.server.process import serve  # noqa: PLC0415 - as above
    from goqueue.server.settings import NodeSettings  # noqa: PLC0415 - as above

    settings = NodeSettings(
        data_dir=data_dir,
        kafka=(ListenerSettings(port=kafka_port),),
        http_port=http_port,
        topic_defaults={"goqueue.fsync": fsync},
    )
    try:
        serve(settings)
    except GoQueueError as error:
        fail(str(error), CANNOT_START)

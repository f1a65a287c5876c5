"""`goqueue init`: set up a server that other machines may reach."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.errors import CliError, UsageError
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.server.setup.secure_folder import SecureFolder

app = typer.Typer()

_NEXT: Final = """\
Made in {folder}, which only you can read:

  goqueue.yaml            the configuration: logins and TLS on every listener
  ca.crt, ca.key          the certificate authority; clients need ca.crt, keep ca.key safe
  server.crt, server.key  the server's certificate, good for a year
  node.crt, node.key      the same for nodes of a cluster, with cluster.secret
  admin.key               the administrator's API key; admin.header has it for curl

The administrator is {key_id}, with this key, which is not shown again:

  {key}

Start the server:

  goqueue server --config {folder}/goqueue.yaml

The command line, as the administrator:

  export SSL_CERT_FILE={folder}/ca.crt
  goqueue login --server https://{host}:{http_port} < {folder}/admin.key
  goqueue topic create orders

curl:

  curl --cacert {folder}/ca.crt -H @{folder}/admin.header https://{host}:{http_port}/topics

A Kafka client, here confluent-kafka:

  Producer({{
      "bootstrap.servers": "{host}:{kafka_port}",
      "security.protocol": "SASL_SSL",
      "ssl.ca.location": "{folder}/ca.crt",
      "sasl.mechanism": "PLAIN",
      "sasl.username": "{key_id}",
      "sasl.password": open("{folder}/admin.key").read().strip(),
  }})

The console is at https://{host}:{http_port}/console: sign in with the API key.
Give each program a user or key of its own: goqueue user create, goqueue key create.
"""


@command(app, "init")
def set_up(
    call: Call,
    *,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Logins and TLS on every listener. Has to be given."),
    ] = False,
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="Where to make everything.")
    ] = Path("goqueue"),
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="A name or address by which clients call the server; repeatable. The first one "
            "is told to Kafka clients. (default: the name of this machine)",
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            metavar="HOST:PORT",
            help="The internal address of a node of a cluster; given for each node. All nodes use "
            "the same folder or a copy of it.",
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Succeed and change nothing if everything was made before."),
    ] = False,
) -> None:
    """Set up a server that other machines may reach: certificates, administrator, configuration."""
    from goqueue.server.setup.secure_folder import (  # noqa: PLC0415 - a server
        is_made,
        make_secure_folder,
    )

    if not secure:
        raise UsageError(
            "expected --secure: without logins and TLS there is nothing to set up, "
            "`goqueue server` starts as it is"
        )
    if keep and is_made(folder):
        sys.stdout.write(f"{folder} is kept as it is\n")
        return
    hosts = host or [socket.gethostname(), *(each.rpartition(":")[0] for each in peer or ())]
    try:
        made = make_secure_folder(folder, hosts, peer or ())
    except GoQueueError as error:
        raise CliError(str(error)) from error
    if call.given.output is None:
        sys.stdout.write(_told(made))
    else:
        call.show(
            {"folder": str(made.folder), "host": made.host, "id": made.key_id, "key": made.key}
        )


def _told(made: SecureFolder) -> str:
    from goqueue.server.setup import secure_folder  # noqa: PLC0415 - it is loaded by now

    return _NEXT.format(
        folder=made.folder,
        host=made.host,
        key_id=made.key_id,
        key=made.key,
        http_port=secure_folder.HTTP_PORT,
        kafka_port=secure_folder.KAFKA_PORT,
    )

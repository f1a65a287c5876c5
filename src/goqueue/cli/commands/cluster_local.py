"""`goqueue cluster start`, `stop` and `status`: a cluster of several nodes on this machine."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import Format, note
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.server.supervision.local_cluster import LocalCluster, LocalNode, Ports

_SIZES: Final = (1, 3, 5, 7)
_KAFKA_PORT: Final = 9092
_HTTP_PORT: Final = 8080
_GRPC_PORT: Final = 9000
_INTERNAL_PORT: Final = 7000
_INTERNAL_STEP: Final = 10
"""From the internal port of one node to that of the next: etcd uses the two after each."""
_READY_S: Final = 120.0
_STOP_S: Final = 300.0
_GIVE_UP_S: Final = 30.0
"""How long nodes have to stop that were started along with one that failed."""

FolderOption: TypeAlias = Annotated[
    Path, typer.Option("--folder", help="The folder of the cluster: its data, secret and logs.")
]
NodeOption: TypeAlias = Annotated[
    int | None, typer.Option("--node", metavar="N", help="One node only, by its number.")
]
_FOLDER: Final = Path("cluster")


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    command(app, "start")(start_cluster)
    command(app, "stop")(stop_cluster)
    command(app, "status")(show_status)


def start_cluster(
    call: Call,
    *,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", help="1, 3, 5 or 7. (default: 3)")
    ] = None,
    folder: FolderOption = _FOLDER,
    kafka_port: Annotated[
        int | None,
        typer.Option(
            "--kafka-port",
            metavar="PORT",
            help="Kafka port of node 1; the next nodes get the next ports. (9092)",
        ),
    ] = None,
    http_port: Annotated[
        int | None, typer.Option("--http-port", metavar="PORT", help="HTTP port of node 1. (8080)")
    ] = None,
    grpc_port: Annotated[
        int | None, typer.Option("--grpc-port", metavar="PORT", help="gRPC port of node 1. (9000)")
    ] = None,
    internal_port: Annotated[
        int | None,
        typer.Option(
            "--internal-port",
            metavar="PORT",
            help="Between the nodes; each has ten ports, of which it uses three. (7000)",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings of all nodes.")
    ] = None,
    node: NodeOption = None,
) -> None:
    """Start a cluster of several nodes on this machine, in the background, and wait for it.

    In a folder that has a cluster, nodes that do not run are started again.
    """
    from goqueue.server.etcd.binary import find_etcd  # noqa: PLC0415 - not for the other commands

    began_s = time.monotonic()
    given = (kafka_port, http_port, grpc_port, internal_port)
    flags = [] if config is None else ["--config", str(config.absolute())]
    try:
        find_etcd()
        cluster = _opened(folder, nodes, given, flags)
        chosen = _chosen(cluster, node)
        if stopped := [each for each in chosen if not each.processes]:
            note(f"starting {', '.join(each.name for each in stopped)} in {folder}")
        _start(cluster, stopped, chosen)
    except GoQueueError as error:
        raise CliError(str(error)) from error
    _show(call, cluster.nodes)
    if call.output is Format.TABLE:
        note(
            f"\nready in {time.monotonic() - began_s:.1f} s. Try:\n"
            f"  goqueue topic create orders --partitions 6 -s {cluster.nodes[0].http_url}\n"
            f"  goqueue cluster status --folder {folder}\n"
            f"  goqueue cluster stop --folder {folder}\n"
            f"Kafka clients: bootstrap.servers={cluster.bootstrap}"
        )


def _start(cluster: LocalCluster, stopped: list[LocalNode], chosen: list[LocalNode]) -> None:
    """Start nodes and wait for all that were asked for; when one fails, none is left running."""
    from goqueue.server.supervision.local_cluster import end_nodes  # noqa: PLC0415 - as above

    try:
        for each in stopped:
            each.start()
        cluster.wait(lambda each: note(f"{each.name} is ready"), _READY_S, chosen)
    except GoQueueError:
        if end_nodes(stopped, signal.SIGTERM, _GIVE_UP_S):
            end_nodes(stopped, signal.SIGKILL, _GIVE_UP_S)
        raise


def stop_cluster(
    call: Call,
    *,
    folder: FolderOption = _FOLDER,
    node: NodeOption = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill its processes, as a power cut would.")
    ] = False,
) -> None:
    """Stop the nodes of a cluster on this machine, or one of them; the data stays."""
    from goqueue.server.supervision.local_cluster import end_nodes  # noqa: PLC0415 - as above

    chosen = _chosen(_existing(folder), node)
    for each in chosen:
        if each.processes:
            note(f"{'killing' if kill else 'stopping'} {each.name}")
    if left := end_nodes(chosen, signal.SIGKILL if kill else signal.SIGTERM, _STOP_S):
        pids = ", ".join(map(str, left))
        raise CliError(f"process {pids} did not stop in {_STOP_S:.0f} s: use --kill")
    _show(call, chosen)


def show_status(call: Call, folder: FolderOption = _FOLDER) -> None:
    """Show the nodes of a cluster on this machine; the exit code is 1 when one is not ready."""
    rows = _show(call, _existing(folder).nodes)
    if any(row["state"] != "ready" for row in rows):
        raise typer.Exit(1)


def _existing(folder: Path) -> LocalCluster:
    from goqueue.server.supervision.local_cluster import LocalCluster  # noqa: PLC0415 - as above

    try:
        cluster = LocalCluster.found(folder)
    except GoQueueError as error:
        raise CliError(str(error)) from error
    if cluster is None:
        raise CliError(
            f"there is no cluster in {folder.absolute()}: name its folder with --folder, or make "
            "one with `goqueue cluster start`"
        )
    return cluster


def _opened(
    folder: Path, nodes: int | None, given: tuple[int | None, ...], flags: list[str]
) -> LocalCluster:
    """The cluster in a folder, or a new one."""
    from goqueue.server.supervision.local_cluster import LocalCluster  # noqa: PLC0415 - as above

    if nodes is not None and nodes not in _SIZES:
        raise UsageError(f"--nodes: found {nodes}, expected 1, 3, 5 or 7")
    cluster = LocalCluster.found(folder, flags)
    if cluster is None:
        return LocalCluster.made(folder, _ports(nodes or 3, given), flags=flags)
    count = len(cluster.nodes)
    if nodes is not None and nodes != count:
        raise CliError(
            f"{folder.absolute()} holds a cluster of {count} nodes, not of {nodes}: leave --nodes "
            "out, or name another folder with --folder"
        )
    stored = [each.ports for each in cluster.nodes]
    if any(each is not None for each in given) and _ports(count, given) != stored:
        raise CliError(
            f"the cluster in {folder.absolute()} has other ports, and keeps them: leave the ports "
            "out, or name another folder with --folder"
        )
    return cluster


def _ports(count: int, given: tuple[int | None, ...]) -> list[Ports]:
    from goqueue.server.supervision.local_cluster import Ports  # noqa: PLC0415 - as above

    kafka, http, grpc, internal = (
        one if one is not None else other
        for one, other in zip(
            given, (_KAFKA_PORT, _HTTP_PORT, _GRPC_PORT, _INTERNAL_PORT), strict=True
        )
    )
    return [
        Ports(kafka + n, http + n, grpc + n, internal + n * _INTERNAL_STEP) for n in range(count)
    ]


def _chosen(cluster: LocalCluster, node: int | None) -> list[LocalNode]:
    if node is None:
        return cluster.nodes
    if not 1 <= node <= len(cluster.nodes):
        raise UsageError(f"--node: found {node}, expected 1 to {len(cluster.nodes)}")
    return [cluster.nodes[node - 1]]


def _show(call: Call, nodes: Sequence[LocalNode]) -> list[dict[str, Any]]:
    """Print nodes; people get no paths, which would make the lines too long."""
    rows = [_row(each) for each in nodes]
    call.show(rows, [{name: each[name] for name in each if name != "log"} for each in rows])
    return rows


def _row(node: LocalNode) -> dict[str, Any]:
    processes = node.processes
    state = "stopped"
    if processes:
        state = "ready" if node.is_ready() else "starting"
    return {
        "node": node.name,
        "state": state,
        "kafka": node.kafka_address,
        "http": node.http_url,
        "pid": processes.get("supervisor"),
        "broker_pid": processes.get("broker"),
        "etcd_pid": processes.get("etcd"),
        "log": str(node.log_file),
    }

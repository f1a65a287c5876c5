"""`goqueue cluster`: what runs there, its health, and the etcd that a cluster needs."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the CLI reads the hints of its commands
from typing import Annotated

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.commands import cluster_local
from goqueue.cli.errors import CliError, UnreachableError, UsageError
from goqueue.cli.output import note, plain
from goqueue.cli.times import show_size, show_span
from goqueue.protocols.http.operations.cluster_shapes import (
    ClusterHealth,
    ClusterNodes,
    ClusterPartitions,
)
from goqueue.protocols.http.operations.operation_shapes import Readiness, Stats, Version

app = typer.Typer(no_args_is_help=True, help="Clusters: start, stop and inspect them.")
cluster_local.add_to(app)


@command(app, "info")
def show_info(call: Call) -> None:
    """Show the version, uptime and totals of the server."""
    stats = call.api.get(Stats, "/stats")
    version = call.api.get(Version, "/version")
    info = {"server": call.api.server, **plain(stats), **plain(version)}
    del info["topics"]
    cluster = call.api.get(ClusterNodes, "/cluster/nodes")
    if len(cluster.nodes) > 1:
        info["nodes"] = [each.node_id for each in cluster.nodes]
        info["controller"] = cluster.controller
    shown = {"uptime_s": show_span(stats.uptime_s), "size_bytes": show_size(stats.size_bytes)}
    table = {
        name.removesuffix("_s").removesuffix("_bytes"): v for name, v in (info | shown).items()
    }
    call.show(info, table)


@command(app, "health")
def show_health(call: Call) -> None:
    """Check the health of the server; the exit code is 1 when it is not healthy."""
    status, answer = call.api.probe(Readiness, "/readyz?verbose=true")
    if answer.checks is None or answer.broker is None:
        raise UnreachableError(f"{call.api.server} answered {status}: {answer.status}")
    failed = answer.broker.failed_partitions
    checks = {
        **answer.checks,
        "partitions": f"{len(failed)} refuse messages: {', '.join(failed)}" if failed else "ok",
    }
    healthy = status == 200 and not failed and checks.get("clock", "ok") == "ok"
    if "cluster" in checks:
        cluster = call.api.get(ClusterHealth, "/cluster/health")
        healthy = healthy and cluster.status == "healthy"
        checks["nodes"] = f"{cluster.active_nodes} of {cluster.nodes} are active"
        checks["cluster"] = "; ".join(cluster.problems) or checks["cluster"]
    health = {"healthy": healthy, "checks": checks}
    call.show(health, {"healthy": healthy, **checks})
    if not healthy:
        raise typer.Exit(1)


@command(app, "nodes")
def list_nodes(call: Call) -> None:
    """List the nodes of the cluster and how many partitions each has."""
    answer = call.api.get(ClusterNodes, "/cluster/nodes")
    rows = [
        {
            "node": each.node_id,
            "name": each.name,
            "state": each.state,
            "controller": each.controller,
            "leads": each.leads,
            "replicas": each.replicas,
            "in_sync": each.in_sync,
            "address": ", ".join(each.listeners.values()),
            "rack": each.rack,
        }
        for each in answer.nodes
    ]
    call.show(answer, rows)


@command(app, "partitions")
def list_partitions(
    call: Call,
    behind: Annotated[
        bool, typer.Option("--under-replicated", help="Only those with a replica not in sync.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only those without a leader.")
    ] = False,
) -> None:
    """List partitions with their leaders, replicas and in-sync replicas."""
    if behind and offline:
        raise UsageError("--under-replicated and --offline are both given, expected one")
    state = "under_replicated" if behind else "offline" if offline else "all"
    answer = call.api.get(ClusterPartitions, f"/cluster/partitions?state={state}")
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "leader": each.leader,
            "epoch": each.epoch,
            "replicas": each.replicas,
            "in_sync": each.isr,
            "eligible": each.elr,
            "offline": each.offline,
        }
        for each in answer.partitions
    ]
    call.show(
        answer,
        rows,
        empty="no such partitions: all of them have a leader, and replicas that are in sync",
    )


@command(app, "install-etcd")
def install(
    call: Call,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="A Debian package, an archive of a release or the program, instead of a download.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Install it even if a suitable version is installed.")
    ] = False,
) -> None:
    """Install etcd for this user, from Debian's packages; a cluster keeps its metadata in it.

    The package comes from the mirror of this machine's apt. Its signature is checked; it is only
    unpacked into the user's cache, so that neither root nor a service is needed.
    """
    from goqueue.server.etcd.binary import EtcdError  # noqa: PLC0415 - not for the other commands
    from goqueue.server.etcd.install import install_etcd  # noqa: PLC0415 - likewise

    try:
        binary = install_etcd(note, source=source, again=again)
    except EtcdError as error:
        raise CliError(str(error)) from error
    if binary.warning is not None:
        note(binary.warning)
    call.show({"etcd": str(binary.path), "version": str(binary.version)})

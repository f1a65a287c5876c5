"""Says what is wrong with a cluster that does not get on: which node, which partitions, and why."""

from __future__ import annotations

from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from support.cluster_nodes import NODE
from support.cluster_queue import call

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNode, ClusterNodes

_PATHS: Final = (
    "/readyz",
    "/cluster/health",
    "/cluster/nodes",
    "/cluster/partitions?state=offline",
    "/cluster/partitions?state=under_replicated",
)


def report(cluster: ClusterNodes) -> str:
    """How every node is and what it says of the others."""
    return "\n".join(_of_node(node) for node in cluster.nodes.values())


def _of_node(node: ClusterNode) -> str:
    lines = [f"--- node {node.number}: {', '.join(_processes(node)) or 'not running'}"]
    lines += [f"{path}: {_answer(node, path)}" for path in _PATHS if node.is_running]
    return "\n".join([*lines, *node.log[-40:]])


def _processes(node: ClusterNode) -> list[str]:
    """Each with its name and its state: R runs, S waits, T is stopped, D waits for a disk."""
    found = []
    for pid in node.pids(NODE):
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        found.append(f"{name} {pid} {rest.split()[0]}")
    return found


def _answer(node: ClusterNode, path: str) -> Any:
    try:
        return call(node.http_url, "GET", path, timeout_s=5.0)
    except (OSError, HTTPException, ValueError) as error:
        return repr(error)

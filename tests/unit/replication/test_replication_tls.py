"""Nodes that replicate over TLS, on which both sides show a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goqueue.cluster.peers import Lane
from goqueue.model.errors import PeerUnavailableError
from goqueue.server.security.peer_tls import PeerTls
from support.certificates import Authority
from support.replicating import replicating
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from support.replicating import ReplicaCluster


async def _encrypted(cluster: ReplicaCluster, folder: Path, *, stranger: int = 0) -> None:
    """Two nodes, each with a certificate of its own; that of a stranger is of another authority."""
    ours, other = Authority(folder), Authority(folder, "other")
    for node_id in (1, 2):
        authority = other if node_id == stranger else ours
        files = authority.issue(f"node-{node_id}")
        cluster.tls[node_id] = PeerTls(*files, ours.ca_file)
        await cluster.add(node_id)


@scenario
async def test_replicas_agree_over_tls_whichever_node_leads(folder: Path) -> None:
    async with replicating(folder, 0) as cluster:
        await _encrypted(cluster, folder)
        key = await cluster.create()
        await cluster.led(key, 1)
        for number in range(10):
            cluster[1].publish(b"%d" % number, size=50_000)
        await cluster.committed(10)
        await cluster.elect(key, 2)
        await cluster.led(key, 2)
        cluster[2].publish(b"from the other side")
        await cluster.committed(11)
        await cluster.isr(key, 1, 2)
        assert cluster[1].stored() == cluster[2].stored()


@scenario
async def test_a_node_with_a_certificate_of_another_authority_replicates_nothing(
    folder: Path,
) -> None:
    async with replicating(folder, 0) as cluster:
        await _encrypted(cluster, folder, stranger=2)
        key = await cluster.create()
        await cluster.led(key, 1)
        cluster[1].publish(b"secret")
        for caller, called in ((2, 1), (1, 2)):
            with pytest.raises(PeerUnavailableError):
                await cluster[caller].peers.open(called, Lane.LIVE)
        assert cluster[2].partition().log_end == 0
        assert cluster[1].partition().high_watermark == 0

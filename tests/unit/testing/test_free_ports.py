"""Ports that tests draw for their servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cluster_server import ClusterServer
from support.server import PORTS, ServerProcess, free_port, free_ports

if TYPE_CHECKING:
    from pathlib import Path


def test_the_ports_of_servers_that_are_gone_are_free_again(tmp_path: Path) -> None:
    for number in range(len(PORTS) // 20):
        ClusterServer(tmp_path / f"cluster-{number}")
        ServerProcess(tmp_path / "data")


def test_a_server_that_is_there_keeps_its_ports(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    kept = {server.kafka_port, server.http_port, server.grpc_port}
    for _ in PORTS:
        holder = ServerProcess(tmp_path)
        assert not kept & {holder.kafka_port, holder.http_port, holder.grpc_port}


def test_whoever_finds_no_ports_is_told_so(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    assert free_port() != server.kafka_port
    with pytest.raises(RuntimeError, match="are free"):
        free_ports(len(PORTS))

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from grpc import aio, ssl_channel_credentials
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.certificates import Authority
from support.nodes_in_loop import running_nodes

SERVING = health_pb2.HealthCheckResponse.SERVING


async def health(port, ca_file, timeout_s=90):
    """What the broker says of its health over TLS, judged by this authority's certificate."""
    trusted = ssl_channel_credentials(ca_file.read_bytes())
    async with aio.secure_channel(f"127.0.0.1:{port}", trusted) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)).status


def test_with_tls_on_clients_must_speak_it_and_trust_the_broker(tmp_path):
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    cert_file, key_file = authority.issue("broker")
    flags = ("--tls-enabled", f"--tls-cert-file={cert_file}", f"--tls-key-file={key_file}")

    async def main():
        async with running_nodes(tmp_path / "data", *flags) as nodes:
            node = nodes.next()
            assert await health(node.grpc.port, authority.ca_file) == SERVING
            with pytest.raises(aio.AioRpcError, match="UNAVAILABLE"):
                await health(node.grpc.port, stranger.ca_file)
            async with aio.insecure_channel(f"127.0.0.1:{node.grpc.port}") as channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                with pytest.raises(aio.AioRpcError, match="UNAVAILABLE"):
                    await stub.Check(health_pb2.HealthCheckRequest(), timeout=90)

    asyncio.run(main())


def test_a_renewed_certificate_counts_for_new_connections(tmp_path):
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    cert_file, key_file = old.issue("broker")
    flags = ("--tls-enabled", f"--tls-cert-file={cert_file}", f"--tls-key-file={key_file}")

    async def main():
        async with running_nodes(tmp_path / "data", *flags) as nodes:
            node = nodes.next()
            assert await health(node.grpc.port, old.ca_file) == SERVING
            new.issue("broker")
            await asyncio.gather(*(each.renewal.now() for each in nodes.all))
            assert await health(node.grpc.port, new.ca_file) == SERVING

    asyncio.run(main())

from __future__ import annotations

import asyncio

import pytest

from goqueue import AsyncClient, ClientSettings
from goqueue.client.errors import BrokerUnavailableError
from support.certificates import Authority
from support.server import running_node


def test_with_tls_on_clients_must_speak_it_and_trust_the_broker(tmp_path):
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    cert_file, key_file = authority.issue("broker")
    flags = ("--tls-enabled", f"--tls-cert-file={cert_file}", f"--tls-key-file={key_file}")

    async def topics(port, **settings):
        made = ClientSettings(call_timeout_ms=settings.pop("timeout_ms", 90_000), **settings)
        async with AsyncClient(f"127.0.0.1:{port}", made) as client:
            return await client.topics.list()

    async def main():
        async with running_node(tmp_path / "data", *flags) as node:
            port = node.grpc.port
            assert await topics(port, ca_file=authority.ca_file) == []
            for settings in ({}, {"ca_file": stranger.ca_file}):
                with pytest.raises(BrokerUnavailableError):
                    await topics(port, timeout_ms=500, **settings)

    asyncio.run(main())


def test_a_renewed_certificate_counts_for_new_connections(tmp_path):
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    cert_file, key_file = old.issue("broker")
    flags = ("--tls-enabled", f"--tls-cert-file={cert_file}", f"--tls-key-file={key_file}")

    async def topics(port, ca_file):
        settings = ClientSettings(ca_file=ca_file, call_timeout_ms=90_000)
        async with AsyncClient(f"127.0.0.1:{port}", settings) as client:
            return await client.topics.list()

    async def main():
        async with running_node(tmp_path / "data", *flags) as node:
            assert await topics(node.grpc.port, old.ca_file) == []
            new.issue("broker")
            assert await topics(node.grpc.port, new.ca_file) == []

    asyncio.run(main())

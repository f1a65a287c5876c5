from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvloop

from goqueue.server.config_node import ClientAuth, TlsSection, TlsVersion
from goqueue.server.errors import StartError
from goqueue.server.security.certificates import Certificates, TlsFilesError
from goqueue.server.security.peer_tls import PeerTls
from goqueue.server.security.self_signed import VALID_DAYS, self_signed
from support.certificates import Authority

NOW = datetime(2030, 5, 6, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def certificates_of(cert_file, key_file, **settings) -> Certificates:
    section = TlsSection(enabled=True, cert_file=cert_file, key_file=key_file, **settings)
    return Certificates(section, cert_file, key_file)


class Greeter(asyncio.Protocol):
    """Says one byte to whoever was let in."""

    def connection_made(self, transport):
        transport.write(b"!")


async def seen_by_a_client(
    certificates: Certificates | PeerTls, client: ssl.SSLContext, name=None
) -> str:
    """The common name of the certificate that a new connection is shown."""
    is_peer = isinstance(certificates, PeerTls)
    context: ssl.SSLContext = getattr(certificates, "listening" if is_peer else "context")
    server = await asyncio.get_running_loop().create_server(Greeter, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await asyncio.to_thread(_shown, port, client, name)


def _shown(port: int, client: ssl.SSLContext, name: str | None) -> str:
    with (
        socket.create_connection(("127.0.0.1", port), 60) as raw,
        client.wrap_socket(raw, server_hostname=name or "127.0.0.1") as secure,
    ):
        secure.settimeout(60)
        if secure.recv(1) != b"!":  # with TLS 1.3 a refusal comes after the handshake
            raise ConnectionResetError
        subject: Any = secure.getpeercert()["subject"]
        return dict(part[0] for part in subject)["commonName"]


def client_of(authority: Authority, *own_files) -> ssl.SSLContext:
    client = ssl.create_default_context(cafile=authority.ca_file)
    if own_files:
        client.load_cert_chain(*own_files)
    return client


def test_clients_see_the_certificate_of_the_files(authority):
    certificates = certificates_of(*authority.issue("one"))
    assert uvloop.run(seen_by_a_client(certificates, client_of(authority))) == "one"


# --- Files that change ----------------------------------------------------------------------------


@pytest.mark.parametrize("new_loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("server_name", [None, "localhost"])
@pytest.mark.parametrize("is_rsa", [False, True])
def test_a_changed_certificate_is_shown_to_new_connections(
    authority, new_loop, server_name, is_rsa
):
    certificates = certificates_of(*authority.issue("old", file="server"))
    client = client_of(authority)

    async def scenario():
        assert await seen_by_a_client(certificates, client, server_name) == "old"
        authority.issue("new", file="server", is_rsa=is_rsa)
        assert await seen_by_a_client(certificates, client, server_name) == "old"
        await certificates.reload()
        assert await seen_by_a_client(certificates, client, server_name) == "new"

    new_loop(scenario())


def test_files_that_do_not_load_leave_the_old_certificate_in_use_until_they_do(authority, caplog):
    cert_file, key_file = authority.issue("old", file="server")
    certificates = certificates_of(cert_file, key_file)
    client = client_of(authority)

    async def scenario():
        good_key = key_file.read_bytes()
        for wrong in (b"nonsense", authority.issue("other")[1].read_bytes()):
            key_file.write_bytes(wrong)
            await certificates.reload()
            assert await seen_by_a_client(certificates, client) == "old"
        key_file.unlink()
        await certificates.reload()
        assert await seen_by_a_client(certificates, client) == "old"
        key_file.write_bytes(good_key)
        authority.issue("new", file="server")
        await certificates.reload()
        assert await seen_by_a_client(certificates, client) == "new"

    with caplog.at_level(logging.INFO, "goqueue"):
        asyncio.run(scenario())
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING"] * 3 + ["INFO"]
    assert all("stays in use" in line for line in caplog.messages[:3])


def test_broken_files_are_told_until_files_load_again(authority):
    cert_file, key_file = authority.issue("old", file="server")
    certificates = certificates_of(cert_file, key_file)
    before = certificates.pem
    key_file.write_bytes(b"nonsense")
    asyncio.run(certificates.reload())
    assert certificates.failure is not None
    assert certificates.pem is before
    authority.issue("new", file="server")
    asyncio.run(certificates.reload())
    assert certificates.failure is None
    assert (certificates.reload_count, certificates.failure_count) == (1, 1)
    assert certificates.pem != before


def test_certificates_between_nodes_are_renewed_too_and_broken_ones_are_not_used(authority):
    cert_file, key_file = authority.issue("old", file="node")
    tls = PeerTls(cert_file, key_file, authority.ca_file)

    async def scenario():
        assert await seen_by_a_client(tls, tls.calling) == "old"
        authority.issue("new", file="node")
        await tls.reload()
        assert await seen_by_a_client(tls, tls.calling) == "new"
        key_file.write_bytes(b"nonsense")
        await tls.reload()
        assert tls.failure is not None
        assert await seen_by_a_client(tls, tls.calling) == "new"

    asyncio.run(scenario())


def test_files_that_have_not_changed_are_not_loaded_again(authority):
    certificates = certificates_of(*authority.issue("one"))
    before = certificates._newest
    asyncio.run(certificates.reload())
    assert certificates._newest is before


def test_a_changed_list_of_authorities_counts_too(authority, tmp_path):
    strangers = Authority(tmp_path, "strangers")
    cert_file, key_file = authority.issue("one")
    known = tmp_path / "known.pem"
    known.write_bytes(authority.ca_file.read_bytes())
    certificates = certificates_of(
        cert_file, key_file, ca_file=known, client_auth=ClientAuth.REQUIRE_VERIFY
    )
    friend = client_of(authority, *authority.issue("friend"))
    stranger = client_of(authority, *strangers.issue("stranger"))

    async def scenario():
        assert await seen_by_a_client(certificates, friend) == "one"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await seen_by_a_client(certificates, stranger)
        known.write_bytes(strangers.ca_file.read_bytes() + b"\n")
        await certificates.reload()
        assert await seen_by_a_client(certificates, stranger) == "one"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await seen_by_a_client(certificates, friend)

    asyncio.run(scenario())


# --- Whom the server asks for a certificate -------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "without", "stranger"),
    [
        (ClientAuth.NONE, True, True),
        (ClientAuth.REQUEST, True, False),
        (ClientAuth.VERIFY, True, False),
        (ClientAuth.REQUIRE, False, False),
        (ClientAuth.REQUIRE_VERIFY, False, False),
    ],
)
def test_each_mode_lets_in_whom_it_says(authority, tmp_path, mode, without, stranger):
    ca = {} if mode is ClientAuth.NONE else {"ca_file": authority.ca_file}
    certificates = certificates_of(*authority.issue("one"), client_auth=mode, **ca)
    strangers = Authority(tmp_path, "strangers")

    async def gets_in(*own_files) -> bool:
        try:
            return await seen_by_a_client(certificates, client_of(authority, *own_files)) == "one"
        except (ssl.SSLError, ConnectionError):
            return False

    async def scenario():
        assert await gets_in(*authority.issue("friend"))
        assert await gets_in() == without
        assert await gets_in(*strangers.issue("stranger")) == stranger

    asyncio.run(scenario())


def test_an_older_tls_than_the_setting_is_refused(authority):
    certificates = certificates_of(*authority.issue("one"), min_version=TlsVersion.V1_3)
    old = client_of(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    async def scenario():
        assert await seen_by_a_client(certificates, client_of(authority)) == "one"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await seen_by_a_client(certificates, old)

    asyncio.run(scenario())


# --- Files that cannot be used --------------------------------------------------------------------


def test_what_is_wrong_with_the_files_is_said_by_name(authority, tmp_path):
    cert_file, key_file = authority.issue("one")
    _, other_key = authority.issue("two")
    _, locked_key = authority.issue("three", passphrase=b"open sesame")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    gone = tmp_path / "gone.pem"
    cases = [
        ((cert_file, other_key), {}, "two.key does not belong to the certificate in .*one.crt"),
        ((nonsense, key_file), {}, "nonsense.pem holds no certificate in PEM form"),
        ((cert_file, nonsense), {}, "nonsense.pem holds no key in PEM form"),
        ((cert_file, locked_key), {}, "three.key has a passphrase"),
        ((gone, key_file), {}, "gone.pem cannot be read: No such file"),
        ((cert_file, key_file), {"ca_file": nonsense}, "nonsense.pem holds no certificates"),
        ((cert_file, key_file), {"ca_file": gone}, "gone.pem cannot be read"),
    ]
    for files, settings, said in cases:
        with pytest.raises(TlsFilesError, match=said):
            certificates_of(*files, **settings)


# --- Certificates of our own making ---------------------------------------------------------------


def test_a_certificate_of_our_own_is_good_for_this_machine(tmp_path):
    files = self_signed(tmp_path / "tls", datetime.now(UTC))
    certificates = certificates_of(*files)
    client = ssl.create_default_context(cafile=files.cert_file)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("localhost", "127.0.0.1", "goqueue", "goqueue-headless"):
        assert uvloop.run(seen_by_a_client(certificates, client, name)) == "goqueue"
    assert files.key_file.stat().st_mode & 0o777 == 0o600


def test_it_is_kept_until_it_is_about_to_end(tmp_path):
    files = self_signed(tmp_path, NOW)
    first = files.cert_file.read_bytes()
    self_signed(tmp_path, NOW + timedelta(days=VALID_DAYS - 31))
    assert files.cert_file.read_bytes() == first
    self_signed(tmp_path, NOW + timedelta(days=VALID_DAYS - 29))
    assert files.cert_file.read_bytes() != first


def test_it_is_made_anew_when_a_file_is_missing_or_damaged(tmp_path):
    files = self_signed(tmp_path, NOW)
    files.key_file.unlink()
    self_signed(tmp_path, NOW)
    certificates_of(*files)
    files.cert_file.write_text("nonsense")
    self_signed(tmp_path, NOW)
    certificates_of(*files)


def test_without_the_extra_the_start_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(StartError, match=r"goqueue\[tls\]"):
        self_signed(tmp_path, NOW)

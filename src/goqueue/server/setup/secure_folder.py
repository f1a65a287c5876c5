"""The folder of a server that other machines may reach: certificates, configuration, administrator.

The administrator is an API key with the role `admin`. It is stored as every key is, as a hash in
the data folder, by a broker that runs for a moment and listens on this machine only. The nodes of a
cluster have no data folder to share: there it is the root key, in the configuration.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from goqueue.access.api_keys import KEY_PREFIX, ROOT_ID
from goqueue.access.roles import ADMIN
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.clock import SystemClock
from goqueue.server.config_load import load_config
from goqueue.server.errors import StartError
from goqueue.server.setup.authority import CertificateAuthority

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONFIG_FILE: Final = "goqueue.yaml"
AUTHORITY_FILE: Final = "ca.crt"
KEY_FILE: Final = "admin.key"
HEADER_FILE: Final = "admin.header"
DATA_FOLDER: Final = "data"
KAFKA_PORT: Final = 9092
HTTP_PORT: Final = 8080
GRPC_PORT: Final = 9000
_INTERNAL_PORT: Final = 7000
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_KEY_NAME: Final = "administrator"
_SECRET_BYTES: Final = 32


class SecureFolder(NamedTuple):
    """What was made, for whoever tells what to do next."""

    folder: Path
    host: str
    """By which clients on other machines call the server."""
    key_id: str
    key: str
    """Shown once."""

    def __repr__(self) -> str:
        return f"SecureFolder({self.folder}, {self.key_id})"  # no key


def is_made(folder: Path) -> bool:
    """Whether everything was made in a folder before: the administrator's key comes last."""
    return (folder / HEADER_FILE).is_file()


def make_secure_folder(
    folder: Path, hosts: Sequence[str], peers: Sequence[str] = ()
) -> SecureFolder:
    """Make everything in a folder that has nothing in it: for a server, or for the nodes `peers`.

    Raises:
        StartError: there is something in it, or it cannot be made.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = sorted(each.name for each in folder.iterdir())
        if found:
            raise StartError(
                f"nothing was changed: {folder} has {', '.join(found[:3])} in it, expected an "
                "empty folder or none; name another one with --folder"
            )
        folder.chmod(0o700)
        names = list(dict.fromkeys((*hosts, *_LOCAL)))
        _write_certificates(folder, names)
        document = _configuration(folder, hosts)
        if peers:
            key_id, key = ROOT_ID, KEY_PREFIX + secrets.token_hex(_SECRET_BYTES)
            _add_cluster(document, folder, peers, key)
            _write(folder / CONFIG_FILE, _text(document).encode())
        else:
            _write(folder / CONFIG_FILE, _text(document).encode())
            key_id, key = asyncio.run(_make_administrator(folder))
        _write(folder / KEY_FILE, f"{key}\n".encode())
        _write(folder / HEADER_FILE, f"X-API-Key: {key}\n".encode())
    except OSError as error:
        raise StartError(f"{folder} cannot be set up: {error.strerror or error}") from error
    return SecureFolder(folder, hosts[0], key_id, key)


def _write_certificates(folder: Path, names: Sequence[str]) -> None:
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    authority = CertificateAuthority("GoQueue authority", now)
    server, node = authority.issue("goqueue", names), authority.issue("goqueue-node", names)
    for name, pair in (("ca", authority.pair), ("server", server), ("node", node)):
        _write(folder / f"{name}.key", pair.key)
        _write(folder / f"{name}.crt", pair.certificate, 0o644)
    secret = base64.b64encode(secrets.token_bytes(_SECRET_BYTES)) + b"\n"
    _write(folder / "cluster.secret", secret)


def _configuration(folder: Path, hosts: Sequence[str]) -> dict[str, dict[str, object]]:
    return {
        "broker": {"data_dir": str(folder / DATA_FOLDER)},
        "listeners": {
            "kafka": f"0.0.0.0:{KAFKA_PORT}",
            "kafka_advertised": f"{_bracketed(hosts[0])}:{KAFKA_PORT}",
            "http": f"0.0.0.0:{HTTP_PORT}",
            "grpc": f"0.0.0.0:{GRPC_PORT}",
        },
        "auth": {"enabled": True},
        "sasl": {"mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]},
        "tls": {
            "enabled": True,
            "cert_file": str(folder / "server.crt"),
            "key_file": str(folder / "server.key"),
            "ca_file": str(folder / AUTHORITY_FILE),
            "client_auth": "verify",
        },
        "http": {"allowed_hosts": list(hosts)},
    }


def _add_cluster(
    document: dict[str, dict[str, object]], folder: Path, peers: Sequence[str], root_key: str
) -> None:
    """What the nodes of a cluster have besides; each has its own `broker.node_id`."""
    document["listeners"]["internal"] = f"0.0.0.0:{_INTERNAL_PORT}"
    document["auth"]["root_key"] = root_key
    document["cluster"] = {
        "peers": list(peers),
        "secret_file": str(folder / "cluster.secret"),
        "tls_enabled": True,
        "tls_cert_file": str(folder / "node.crt"),
        "tls_key_file": str(folder / "node.key"),
        "tls_ca_file": str(folder / AUTHORITY_FILE),
    }


def _text(document: dict[str, dict[str, object]]) -> str:
    import yaml  # noqa: PLC0415 - a start without a file does not wait for it

    return (
        "# Made by goqueue init --secure. Every client has to log in, over TLS.\n"
        "# Clients may also show a certificate that ca.key has signed.\n"
        "# For a cluster: node.crt, node.key and cluster.secret are for the section `cluster`.\n"
        + yaml.safe_dump(document, sort_keys=False)
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _make_administrator(folder: Path) -> tuple[str, str]:
    """The id and the key."""
    from goqueue.server.node import Node  # noqa: PLC0415 - the heaviest of all

    here = "127.0.0.1:0"
    config = load_config(
        [
            "--config",
            str(folder / CONFIG_FILE),
            *(f"--listeners-{each}={here}" for each in ("kafka", "http", "grpc")),
        ],
        {
            "GOQUEUE_API_ROOT_KEY": secrets.token_hex(_SECRET_BYTES),
            "GOQUEUE_AUDIT_ENABLED": "false",
        },
    )
    node = Node(config)
    await node.start()
    try:
        made = await node.broker.access_administration.create_key(_KEY_NAME, [ADMIN])
    finally:
        await node.stop()
    return made.id, made.key


def _write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """A new file that never could be read by more than `mode` says."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)

"""The command line of one member of a cluster's etcd."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goqueue.server.etcd.binary import EtcdBinary

_QUOTA_BYTES: Final = 512 * 1024 * 1024
"""Of the stored data; at the bound etcd raises an alarm and takes no more writes. A cluster of
10 000 partitions needs about a hundredth of it."""
_TRANSACTION_OPERATIONS: Final = 512
"""At most in one transaction; ours have 128 at most, each with a read of what a condition names."""
_SNAPSHOT_ENTRIES: Final = 10_000
"""Changes that are kept in memory for members that lag, as in 3.6; 3.5 would keep 100 000."""
_LOG_ROTATION: Final = {"maxsize": 10, "maxbackups": 2}
"""Megabytes of one file of the log, and how many older ones are kept."""

PROGRESS_INTERVAL_MS: Final = 500
"""How often a watch without events says that it is alive."""


class EtcdTls(NamedTuple):
    """Certificates for both ways: this member shows its own and asks for theirs."""

    cert_file: Path
    key_file: Path
    ca_file: Path


class EtcdMember(NamedTuple):
    """One member: who it is, where it listens, who the others are."""

    name: str
    data_folder: Path
    log_file: Path
    client_url: str
    """Where clients reach it."""
    peers: Mapping[str, str]
    """The peer URL of every member by its name, this one included."""
    token: str
    """Names the cluster: members with another token do not join each other."""
    listen_host: str | None = None
    """An address of this machine; None when the URLs have one themselves."""
    tls: EtcdTls | None = None
    has_slow_disk: bool = False
    """Whether the disk needs more than 50 ms for one sync in a hundred: elections wait longer."""


def etcd_command(
    binary: EtcdBinary, member: EtcdMember, *, is_replacement: bool = False
) -> list[str]:
    """The program and its flags, by the names that its version has for them.

    A replacement takes the place of a member whose folder was lost, in a cluster that exists.
    """
    peer_url = member.peers[member.name]
    heartbeat_ms, election_ms = (100, 1000) if member.has_slow_disk else (50, 500)
    flags = {
        "name": member.name,
        "data-dir": str(member.data_folder),
        "listen-client-urls": listening(member.client_url, member.listen_host),
        "advertise-client-urls": member.client_url,
        "listen-peer-urls": listening(peer_url, member.listen_host),
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": ",".join(f"{name}={url}" for name, url in member.peers.items()),
        "initial-cluster-token": member.token,
        "initial-cluster-state": "existing" if is_replacement else "new",
        "heartbeat-interval": str(heartbeat_ms),
        "election-timeout": str(election_ms),
        "pre-vote": "true",
        "quota-backend-bytes": str(_QUOTA_BYTES),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "5m",
        "max-txn-ops": str(_TRANSACTION_OPERATIONS),
        "snapshot-count": str(_SNAPSHOT_ENTRIES),
        # To a file: whoever does not read a pipe would stop etcd in the middle of a request.
        "log-outputs": str(member.log_file),
        "enable-log-rotation": "true",
        "log-rotation-config-json": json.dumps(_LOG_ROTATION),
        "log-level": "info",
        **_checks(binary),
        **_tls(member.tls),
    }
    return [str(binary.path), *(f"--{name}={value}" for name, value in flags.items())]


def _checks(binary: EtcdBinary) -> dict[str, str]:
    """Checks for damage, and heartbeats of watches."""
    interval = f"{PROGRESS_INTERVAL_MS}ms"
    if binary.version.has_feature_gates:
        return {
            "feature-gates": "InitialCorruptCheck=true,CompactHashCheck=true",
            "watch-progress-notify-interval": interval,
        }
    return {
        "experimental-initial-corrupt-check": "true",
        "experimental-compact-hash-check-enabled": "true",
        "experimental-watch-progress-notify-interval": interval,
    }


def _tls(tls: EtcdTls | None) -> dict[str, str]:
    if tls is None:
        return {}
    return {
        f"{prefix}{name}": value
        for prefix in ("", "peer-")
        for name, value in (
            ("cert-file", str(tls.cert_file)),
            ("key-file", str(tls.key_file)),
            ("trusted-ca-file", str(tls.ca_file)),
            ("client-cert-auth", "true"),
        )
    }


def listening(url: str, host: str | None) -> str:
    """The URL to listen on: etcd takes addresses there and no names."""
    if host is None:
        return url
    scheme, _, place = url.partition("://")
    _, _, port = place.rpartition(":")
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"

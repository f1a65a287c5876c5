"""Why an etcd ended: what its log says, as one sentence with what to do.

etcd tells it in words only, so this is the one place where an error is recognised by its text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.server.supervision.etcd_folder import EtcdFolder

_FATAL: Final = frozenset({"fatal", "panic", "dpanic"})
_SHOWN_CHARS: Final = 300
"""More of an unknown error is not shown; the log has it."""

_KNOWN: Final = (
    (
        r"no space left on device|disk quota exceeded",
        "the disk of {folder} is full, and etcd cannot write: make room and start the node again",
    ),
    (
        r"permanently removed",
        (
            "this node's etcd was removed from the cluster: start it with an empty data folder, "
            "{folder} is of no use any more"
        ),
    ),
    (
        (
            r"cannot be downgraded|invalid downgrade|incompatible (?:with current|cluster) version"
            r"|lower than (?:determined|cluster)"
        ),
        (
            "the cluster is on a newer version of etcd: run `goqueue cluster install-etcd`, or "
            "name the newer binary with cluster.etcd_binary"
        ),
    ),
    (
        (r"cluster ?id mismatch|error validating peerurls|member count is unequal"),
        (
            "the etcd in {folder} belongs to another cluster: use the data folder of this one, or "
            "an empty one"
        ),
    ),
    (
        r"already been bootstrapped|tocommit\(\d+\) is out of range",
        (
            "the etcd in {folder} has lost what it had stored, and the others count on it: delete "
            "the folder and start the node again while most of them run; they take it in anew"
        ),
    ),
    (
        (
            r"crc mismatch|corrupt|data inconsistency|invalid database|failed to open database"
            r"|failed to find database snapshot|unexpected eof|max entry size limit exceeded"
        ),
        (
            "the etcd in {folder} is damaged: check the disk and restore the folder, or delete it "
            "and start the node again while most of the others run; they take it in anew"
        ),
    ),
    (
        r"address already in use",
        (
            "a port of etcd is in use by another process: stop it, or change this node's port in "
            "cluster.peers on every node (etcd uses the two after it)"
        ),
    ),
    (
        r"permission denied",
        (
            "the etcd in {folder} may not be read or written by this user: give it the folder, or "
            "start the node as its owner"
        ),
    ),
    (
        r"no such file or directory.*\.(?:pem|crt|key)|tls: |x509: ",
        (
            "etcd cannot use the certificates of cluster.tls_cert_file, cluster.tls_key_file and "
            "cluster.tls_ca_file: the log is {log}"
        ),
    ),
)


def explain(folder: EtcdFolder, code: int, log: str, errors: str) -> str | None:
    """Why it ended, or None when it did not say: it was killed, or ended as it was asked to."""
    if code <= 0 and not errors.strip():
        return None
    said = " ".join([*_last_words(log.splitlines()), errors]).strip()
    if not said and folder.free_bytes() < folder.NEEDED_BYTES:
        said = "no space left on device"
    names = {"folder": folder.path, "log": folder.log_file}
    for pattern, text in _KNOWN:
        if re.search(pattern, said, re.IGNORECASE):
            return text.format(**names)
    if not said:
        return f"etcd ended with exit code {code} and did not say why: its log is {folder.log_file}"
    shown = " ".join(said.split())[:_SHOWN_CHARS]
    return f"etcd ended with exit code {code} ({shown}): its log is {folder.log_file}"


def _last_words(lines: Iterable[str]) -> Iterator[str]:
    """Of a log in JSON, the lines that an etcd ends with."""
    for line in lines:
        try:
            entry: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") in _FATAL:
            yield f"{entry.get('msg', '')}: {entry.get('error', '')}".removesuffix(": ")

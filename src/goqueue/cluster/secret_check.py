"""Whether a node has the secret of its cluster, told before it takes part.

The store keeps a salted key of the secret, from which a node can check its own and nobody can read
it. Nodes with another secret could not talk to each other, which would look like a network that is
down; this says what it is.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cluster.metadata import ABSENT, Condition, Put
from goqueue.cluster.records import decode, encode
from goqueue.model.errors import ClusterMismatchError

if TYPE_CHECKING:
    from goqueue.cluster.metadata import MetadataStore

SECRET_KEY: Final = "cluster/secret"  # noqa: S105 - the name of a key
_ITERATIONS: Final = 10_000


class _SaltedSecret(msgspec.Struct, frozen=True):
    """What is stored of a secret."""

    salt: bytes
    iterations: int
    key: bytes


def _salted(secret: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", secret, salt, iterations)


async def check_secret(store: MetadataStore, secret: bytes, source: object) -> None:
    """Compare a node's secret with the cluster's; the first node's is the cluster's.

    Args:
        store: the cluster's metadata.
        secret: what the node has.
        source: where it has it from, for the error.

    Raises:
        ClusterMismatchError: it is another.
    """
    while (entry := await store.get(SECRET_KEY)) is None:
        salt = secrets.token_bytes(16)
        made = _SaltedSecret(salt, _ITERATIONS, _salted(secret, salt, _ITERATIONS))
        await store.transact([Condition(SECRET_KEY, ABSENT)], [Put(SECRET_KEY, encode(made))])
    kept = decode(entry.value, _SaltedSecret, SECRET_KEY)
    if not hmac.compare_digest(_salted(secret, kept.salt, kept.iterations), kept.key):
        raise ClusterMismatchError(
            f"the secret in {source} is not that of the cluster: copy the file of a node that is "
            "part of it"
        )

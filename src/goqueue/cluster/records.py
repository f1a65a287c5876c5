"""What a cluster keeps in its metadata store: every key, and the value under it.

The record of a partition is the only truth about who leads it. It changes by compare-and-set on its
own revision: its leader may change the in-sync set and resign, the controller may write everything
else. Whoever writes one puts a token of its own into it, so that a writer whose answer was lost can
tell by reading whether the write happened.
"""

from __future__ import annotations

import secrets
from enum import Enum
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from goqueue.model.errors import CorruptMetadataError

NODES: Final = "nodes/"
FENCES: Final = "fences/"
MEMBERS: Final = "members/"
PARTITIONS: Final = "partitions/"
CONTROLLER: Final = "controller"

_T = TypeVar("_T")


class PartitionKey(NamedTuple):
    """A partition by the id of its topic: a topic that is made again has other partitions."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{PARTITIONS}{self.topic_id.hex}/{self.partition}"

    @classmethod
    def parse(cls, key: str) -> PartitionKey:
        """The partition that a key of the store is about."""
        topic_id, _, number = key.removeprefix(PARTITIONS).partition("/")
        return cls(UUID(hex=topic_id), int(number))


class PartitionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who holds a partition, who leads it, and since which epoch."""

    replicas: tuple[int, ...]
    """The nodes that hold it, the preferred leader first."""
    isr: tuple[int, ...]
    """The in-sync replicas: each has everything below the high watermark. Never empty; the last
    one stays here when it goes away."""
    leader: int | None
    """None while nobody who could lead without a loss is alive."""
    epoch: int = 0
    """Grows whenever the leader changes, also to none and also to itself after a restart."""
    elr: tuple[int, ...] = ()
    """Eligible leaders outside of the in-sync set (KIP-966): they left it while it was smaller
    than `min.insync.replicas`, so that nothing was committed without them."""
    leader_incarnation: int = 0
    """The run of the leader's node that was made leader: a later run never resumes the epoch."""
    last_leader: int | None = None
    """Who led last."""
    min_isr: int = 1
    """`min.insync.replicas` as it is in force here. Stored with the in-sync set, so that a leader
    never commits by one value while somebody else keeps eligible leaders by another."""
    struck: tuple[int, ...] = ()
    """Replicas that were in sync or eligible, and came back without all that they had. None of them
    leads while another may. The last one struck stays in `isr` too. The next leader clears it."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """A reassignment under way: replicas that come and go."""
    token: str = ""
    """Of whoever wrote it last."""

    @property
    def preferred(self) -> int:
        """The replica that leads when nothing is in its way."""
        return self.replicas[0]


class NodeState(Enum):
    """What a registered node is ready for."""

    STARTING = "starting"
    """It may neither lead nor enter an in-sync set: it may have lost what it once had."""
    ACTIVE = "active"
    STOPPING = "stopping"
    """It is handing over what it leads."""


class NodeAddress(msgspec.Struct, frozen=True):
    """Where a listener of a node is reached."""

    host: str
    port: int


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that is running; the record goes away with its session."""

    name: str
    folder_id: str
    """Made with the data folder: another one means that the data is not what it was."""
    state: NodeState
    internal: NodeAddress
    """For the other nodes."""
    listeners: dict[str, NodeAddress]
    """Advertised to clients, by the names of listeners."""
    incarnation: int = 0
    """The revision of the node's first record since it was started; 0 in that record itself."""
    boot_id: str = ""
    rack: str | None = None
    version: str = ""
    is_clean: bool = True
    """Whether it has everything that it had acknowledged before this start."""
    is_full: bool = False
    """Whether its disk is too full for publishing: others are to lead, where they can."""


class Fence(msgspec.Struct, frozen=True):
    """A node that the controller takes for dead, until it registers anew."""

    incarnation: int
    reason: str = ""


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node id that was ever used, and the folder that it belongs to."""

    folder_id: str
    name: str = ""


class ControllerRecord(msgspec.Struct, frozen=True):
    """Which node decides who leads; taken by compare-and-set, never by a lease."""

    node: int
    epoch: int
    incarnation: int
    token: str = ""


class DeletedTopic(msgspec.Struct, frozen=True):
    """A topic whose files are to be removed by the nodes that still have some."""

    name: str
    nodes: tuple[int, ...]


def node_key(node_id: int) -> str:
    """Where a node is registered."""
    return f"{NODES}{node_id}"


def fence_key(node_id: int) -> str:
    """Where it is written that a node is taken for dead."""
    return f"{FENCES}{node_id}"


def member_key(node_id: int) -> str:
    """Where a node id is bound to its folder."""
    return f"{MEMBERS}{node_id}"


def new_token() -> str:
    """What tells one write from every other."""
    return secrets.token_hex(8)


def encode(record: msgspec.Struct) -> bytes:
    """A record as it is stored."""
    return msgspec.msgpack.encode(record)


def decode(value: bytes, kind: type[_T], key: str) -> _T:
    """A stored record.

    Raises:
        CorruptMetadataError: the value under `key` is something else.
    """
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptMetadataError(
            f"the metadata under {key!r} is no {kind.__name__}: {error}"
        ) from error

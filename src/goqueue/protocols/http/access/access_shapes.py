"""What administrators of access send and are answered."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from goqueue.protocols.http.api.codecs import Duration
from goqueue.protocols.http.api.shapes import Milliseconds, doc

RoleNames: TypeAlias = Annotated[
    list[str], doc("Roles: built in ones, or own ones.", ["producer"], max_length=100)
]
ResourceName: TypeAlias = Literal["topic", "group", "transactional_id", "cluster", "tenant"]
OperationName: TypeAlias = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
]
PatternName: TypeAlias = Literal["literal", "prefixed"]
EffectName: TypeAlias = Literal["allow", "deny"]
PrincipalText: TypeAlias = Annotated[
    str,
    doc("`User:NAME`, `User:*` for everybody, or `role:NAME`.", "User:alice", max_length=300),
]


# --- API keys ------------------------------------------------------------------------------------


class KeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """A key to make."""

    name: Annotated[str, doc("What it is for.", "ci", min_length=1, max_length=200)]
    roles: RoleNames = msgspec.field(default_factory=list)
    expires_in: Annotated[Duration | None, doc("Never, if omitted.", "720h")] = None
    tenant: Annotated[str | None, doc("The key is good for this tenant alone.", "acme")] = None
    metadata: Annotated[dict[str, str], doc("Own notes.", {"team": "billing"})] = msgspec.field(
        default_factory=dict
    )


class KeyInfo(msgspec.Struct, kw_only=True):
    """A key, without the key itself."""

    id: Annotated[str, doc("The id.", "key_5f0c9a7d1e2b3c4d")]
    name: str
    prefix: Annotated[str, doc("How the key starts.", "gq_5f0c9a7d")]
    roles: list[str]
    tenant: str | None
    created_at: Milliseconds
    expires_at: Milliseconds | None
    last_used: Annotated[
        Milliseconds | None, doc("By a client of this node, since it was started.")
    ]
    revoked: bool
    metadata: dict[str, str]


class KeyCreated(KeyInfo, kw_only=True):
    """A new key. It is shown here and nowhere else."""

    key: Annotated[str, doc("The key itself.", "gq_…")]


class KeyList(msgspec.Struct):
    """Every key."""

    keys: list[KeyInfo]


class KeyPath(msgspec.Struct, frozen=True):
    """A key in the path."""

    id: Annotated[str, doc("The id of a key.", "key_5f0c9a7d1e2b3c4d", max_length=64)]


# --- Rules ---------------------------------------------------------------------------------------


class AclBody(msgspec.Struct, forbid_unknown_fields=True):
    """Rules to make: one for each operation."""

    principal: PrincipalText
    resource_type: ResourceName
    operations: Annotated[list[OperationName], doc("", ["read"], min_length=1, max_length=20)]
    resource_name: Annotated[
        str | None, doc("`*` is every name. Omitted for the cluster.", "orders")
    ] = None
    pattern_type: PatternName = "literal"
    effect: EffectName = "allow"
    host: Annotated[str, doc("An IP address; `*` is any.", "*", max_length=100)] = "*"


class AclInfo(msgspec.Struct):
    """A rule."""

    id: Annotated[str, doc("The same for the same rule.", "acl_5f0c9a7d1e2b3c4d")]
    principal: str
    resource_type: str
    resource_name: str
    pattern_type: str
    operation: str
    effect: str
    host: str


class AclList(msgspec.Struct):
    """Rules."""

    acls: list[AclInfo]


class AclPath(msgspec.Struct, frozen=True):
    """A rule in the path."""

    id: Annotated[str, doc("The id of a rule.", "acl_5f0c9a7d1e2b3c4d", max_length=64)]


class AclQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rules."""

    principal: Annotated[str | None, doc("Of this principal.", "User:alice")] = None
    resource_type: Annotated[ResourceName | None, doc("About such a resource.")] = None
    resource_name: Annotated[
        str | None, doc("That apply to the resource of this name.", "orders")
    ] = None


# --- Roles and users -----------------------------------------------------------------------------


class RolePath(msgspec.Struct, frozen=True):
    """A role in the path."""

    role: Annotated[str, doc("The name of a role.", "auditor", max_length=200)]


class RoleBody(msgspec.Struct, forbid_unknown_fields=True):
    """A role of one's own."""

    permissions: Annotated[
        list[str], doc("What it allows.", ["topic:list", "metrics:read"], min_length=1)
    ]
    description: Annotated[str, doc("", "Sees metrics.", max_length=500)] = ""


class RoleInfo(msgspec.Struct):
    """A role."""

    name: str
    permissions: list[str]
    description: str
    built_in: bool


class RoleList(msgspec.Struct):
    """Every role."""

    roles: list[RoleInfo]


class UserPath(msgspec.Struct, frozen=True):
    """A user in the path."""

    user: Annotated[str, doc("The name of a user.", "alice", min_length=1, max_length=255)]


class UserBody(msgspec.Struct, forbid_unknown_fields=True):
    """A user to make, or what is to change."""

    password: Annotated[
        str | None, doc("Needed for a new user. Only salted keys of it are kept.")
    ] = None
    roles: Annotated[RoleNames | None, doc("As they were, if omitted.")] = None
    tenant: Annotated[str | None, doc("A new user belongs to this tenant, for good.", "acme")] = (
        None
    )

    def __repr__(self) -> str:
        return f"UserBody(roles={self.roles})"  # no password


class UserInfo(msgspec.Struct):
    """A user, or another principal that roles were given to."""

    name: str
    mechanisms: Annotated[
        list[str],
        doc("How the user may log in; none: a token's or a certificate's.", ["SCRAM-SHA-256"]),
    ]
    roles: list[str]
    tenant: str | None = None


class UserList(msgspec.Struct):
    """Every user."""

    users: list[UserInfo]


class RolesBody(msgspec.Struct, forbid_unknown_fields=True):
    """The roles of a principal."""

    roles: RoleNames


class NameDeleted(msgspec.Struct):
    """What was deleted."""

    deleted: Annotated[str, doc("The name.", "alice")]

"""Roles: what may be done by those who have one, on every resource, where no rule says otherwise.

A role is a set of permissions, each a few rights. There are four roles to begin with, and those
that administrators make.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.rights import OPERATIONS, Operation, ResourceType, Right
from goqueue.model.errors import InvalidRoleError

if TYPE_CHECKING:
    from collections.abc import Collection

ADMIN: Final = "admin"
"""The role that rules do not bind."""

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_CLUSTER, _TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID

_READ_TOPIC: Final = (
    Right(_TOPIC, Operation.DESCRIBE),
    Right(_TOPIC, Operation.DESCRIBE_CONFIGS),
)
_JOIN: Final = (Right(_GROUP, Operation.READ), Right(_GROUP, Operation.DESCRIBE))
_READ_GROUP: Final = (
    Right(_GROUP, Operation.DESCRIBE),
    Right(_GROUP, Operation.DESCRIBE_CONFIGS),
)
_READ_CLUSTER: Final = (Right(_CLUSTER, Operation.DESCRIBE),)
_EVERYTHING: Final = tuple(
    Right(resource, operation)
    for resource, operations in OPERATIONS.items()
    for operation in operations
)

PERMISSIONS: Final = {
    "topic:create": (Right(_TOPIC, Operation.CREATE),),
    "topic:delete": (Right(_TOPIC, Operation.DELETE), *_READ_TOPIC),
    "topic:alter": (
        Right(_TOPIC, Operation.ALTER),
        Right(_TOPIC, Operation.ALTER_CONFIGS),
        *_READ_TOPIC,
    ),
    "topic:list": _READ_TOPIC,
    "topic:read": _READ_TOPIC,
    "message:publish": (
        Right(_TOPIC, Operation.WRITE),
        Right(_TOPIC, Operation.DESCRIBE),
        Right(_CLUSTER, Operation.IDEMPOTENT_WRITE),
        Right(_TRANSACTION, Operation.WRITE),
        Right(_TRANSACTION, Operation.DESCRIBE),
    ),
    "message:consume": (Right(_TOPIC, Operation.READ), Right(_TOPIC, Operation.DESCRIBE)),
    "group:join": _JOIN,
    "group:leave": _JOIN,
    "group:commit": _JOIN,
    "group:list": _READ_GROUP,
    "group:read": _READ_GROUP,
    "group:delete": (Right(_GROUP, Operation.DELETE), *_READ_GROUP),
    "group:alter": (Right(_GROUP, Operation.ALTER_CONFIGS), *_READ_GROUP),
    "metrics:read": _READ_CLUSTER,
    "cluster:read": (*_READ_CLUSTER, Right(_CLUSTER, Operation.DESCRIBE_CONFIGS)),
    "admin:*": _EVERYTHING,
}
"""What each permission allows. An operation includes those that it implies."""

_LISTS: Final = ("topic:list", "topic:read")


class Role(msgspec.Struct, frozen=True):
    """A name for some permissions."""

    permissions: tuple[str, ...] = ()
    description: str = ""

    @property
    def rights(self) -> frozenset[Right]:
        """All that it allows; a permission of a later version allows nothing here."""
        return frozenset(right for each in self.permissions for right in PERMISSIONS.get(each, ()))


BUILT_IN: Final = {
    ADMIN: Role(("admin:*",), "Everything, whatever the rules say."),
    "producer": Role((*_LISTS, "message:publish"), "Publish to every topic."),
    "consumer": Role(
        (
            *_LISTS,
            "message:consume",
            "group:join",
            "group:leave",
            "group:commit",
            "group:list",
            "group:read",
        ),
        "Consume every topic, in any group.",
    ),
    "readonly": Role(
        (*_LISTS, "group:list", "group:read"), "See topics and groups, and no message."
    ),
}
"""The roles that are always there and that cannot be changed."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_role(name: str, permissions: Collection[str]) -> None:
    """Hold a role of one's own to the rule.

    Raises:
        InvalidRoleError: saying what is wrong with it and what was expected.
    """
    if name in BUILT_IN:
        raise InvalidRoleError(f"the role {name!r} is built in and cannot be changed")
    check_role_name(name)
    unknown = sorted(set(permissions) - PERMISSIONS.keys())
    if unknown or not permissions:
        found = f"the permission {unknown[0]!r}" if unknown else "no permission"
        raise InvalidRoleError(
            f"role {name!r} has {found}, expected some of {', '.join(PERMISSIONS)}"
        )
    if "admin:*" in permissions:
        raise InvalidRoleError(
            f"role {name!r} has the permission 'admin:*': use the role {ADMIN!r} itself"
        )


def check_role_name(name: str) -> None:
    """Raises `InvalidRoleError` unless a role may be called so."""
    if not _NAME.fullmatch(name):
        raise InvalidRoleError(
            f"a role named {name[:80]!r}, expected 1 to 64 letters, digits, dots, dashes and "
            "underscores"
        )

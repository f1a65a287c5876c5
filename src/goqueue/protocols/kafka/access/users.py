"""Managing users: DescribeUserScramCredentials and AlterUserScramCredentials.

Clients salt a new password themselves, so that it does not travel here either.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from goqueue.access.credentials import check_user_name
from goqueue.access.keys import Mechanism, ScramKeys, keys_from_salted
from goqueue.model.errors import GoQueueError, UnsupportedMechanismError
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ALTER, DESCRIBE, cluster
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.access.administration import AccessAdministration
    from goqueue.access.users import Users
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct

_MECHANISMS: Final = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
"""Kafka's numbers."""
_NUMBERS: Final = {mechanism: number for number, mechanism in _MECHANISMS.items()}


def _unaltered(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    names = {**_by_name(request.deletions), **_by_name(request.upsertions)}
    return {"results": [_result(name, code, "users may not be altered") for name in names]}


class UsersApi:
    """Shows and changes who may log in."""

    def __init__(self, users: Users, administration: AccessAdministration) -> None:
        self._users = users
        self._administration = administration

    @api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, right=cluster(DESCRIBE))
    def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """Which mechanisms each user has, and how many iterations; never the keys."""
        asked = Counter(user.name for user in request.users or ())
        if not asked:
            asked.update(user.name for user in self._users.all())
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "results": [
                self._describe(name, is_repeated=count > 1) for name, count in asked.items()
            ],
        }

    def _describe(self, name: str, *, is_repeated: bool) -> dict[str, Any]:
        user = self._users.find(name)
        if is_repeated:
            return _result(name, ErrorCode.duplicate_resource, "the user was asked for twice")
        if user is None:
            return _result(name, ErrorCode.resource_not_found, f"there is no user {name!r}")
        infos = [
            {"mechanism": _NUMBERS[mechanism], "iterations": keys.iterations}
            for mechanism, keys in sorted(user.keys.items())
        ]
        return {**_result(name), "credential_infos": infos}

    @api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, right=cluster(ALTER), on_error=_unaltered)
    async def alter(self, ctx: RequestContext, request: Struct) -> Response:
        """One result for each user: all that was asked for that user happened, or nothing."""
        removals, additions = _by_name(request.deletions), _by_name(request.upsertions)
        return {
            "results": [
                await self._alter(name, removals.get(name, []), additions.get(name, []))
                for name in {**removals, **additions}
            ]
        }

    async def _alter(
        self, name: str, removals: list[Struct], additions: list[Struct]
    ) -> dict[str, Any]:
        try:
            if additions or self._users.find(name) is None:
                check_user_name(name)
            changes: dict[Mechanism, ScramKeys | None] = {}
            for item in removals:
                changes[_mechanism(item.mechanism)] = None
            for item in additions:
                changes[_mechanism(item.mechanism)] = _keys(item)
            if len(changes) < len(removals) + len(additions):
                text = "a mechanism was to be changed twice in one request"
                return _result(name, ErrorCode.duplicate_resource, text)
            await self._administration.alter_user(name, changes)
        except GoQueueError as error:
            return _result(name, code_for(error), str(error))
        return _result(name)


def _by_name(items: Iterable[Struct]) -> dict[str, list[Struct]]:
    found: dict[str, list[Struct]] = {}
    for item in items:
        found.setdefault(item.name, []).append(item)
    return found


def _mechanism(number: int) -> Mechanism:
    mechanism = _MECHANISMS.get(number)
    if mechanism is None:
        raise UnsupportedMechanismError(f"there is no SCRAM mechanism {number}")
    return mechanism


def _keys(item: Struct) -> ScramKeys:
    salted, salt = bytes(item.salted_password), bytes(item.salt)
    return keys_from_salted(_mechanism(item.mechanism), salted, salt, item.iterations)


def _result(name: str, code: ErrorCode = ErrorCode.none, text: str | None = None) -> dict[str, Any]:
    return {"user": name, "error_code": code, "error_message": text}

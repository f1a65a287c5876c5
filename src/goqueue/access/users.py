"""The users who may log in: read from the metadata store once, changed there first.

Only salted keys are kept, never a password. The view in memory is replaced as a whole.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.access.credentials import (
    SALT_BYTES,
    Decoys,
    User,
    check_user_name,
    decode_user,
    encode_user,
    new_user,
)
from goqueue.access.password_checks import PasswordChecks
from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Delete,
    Entry,
    MetadataStore,
    Operation,
    Put,
    Revision,
)
from goqueue.model.errors import (
    MetadataUnavailableError,
    UnacceptableCredentialError,
    UnknownCredentialError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.access.keys import Mechanism, ScramKeys
    from goqueue.cluster.view_keeper import ViewKeeper

logger = logging.getLogger(__name__)

_MAX_USERS: Final = 10_000
"""A further one is refused with `UnacceptableCredentialError`."""

_MAX_PASSWORD_CHARS: Final = 1000
"""A longer one is refused likewise."""

_PREFIX: Final = "users/"
_SECRET_KEY: Final = "login/decoy-secret"  # noqa: S105 - where it is kept, not what it is
_SECRET_BYTES: Final = 32
_SECRET_ATTEMPTS: Final = 3


class _Known(msgspec.Struct, frozen=True):
    """A user as it is stored. One without keys was removed, and stays so."""

    user: User
    revision: Revision


class Users:
    """Everyone who may log in, and every way to change that."""

    def __init__(
        self,
        store: MetadataStore,
        initial: Iterable[tuple[str, str]] = (),
        keeper: ViewKeeper | None = None,
    ) -> None:
        """`initial` are the names and passwords of users to make, unless they were made before.

        In a cluster `keeper` tells what other nodes change.
        """
        self._store = store
        self._keeper = keeper
        self._checks = PasswordChecks()
        self._initial = dict(initial)
        self._known: Mapping[str, _Known] = MappingProxyType({})
        self._decoys = Decoys(secrets.token_bytes(_SECRET_BYTES))
        self._changing = asyncio.Lock()
        self.on_change: Callable[[], None] | None = None
        """Called after a user was added or changed, or may no longer log in."""

    async def load(self) -> None:
        """Read everyone from the metadata store, and make the initial users who are missing."""
        if self._keeper is not None:
            self._keeper.mirror(_PREFIX, self._take)
        else:
            snapshot = await self._store.range(_PREFIX)
            self._take({entry.key: entry for entry in snapshot.entries})
        if self._known or self._initial or self._keeper is not None:
            self._decoys = Decoys(await self._secret())
        for name, password in self._initial.items():
            await self._make_initial(name, password)

    def _take(self, entries: Mapping[str, Entry]) -> None:
        known = {}
        for key, entry in entries.items():
            name = key.removeprefix(_PREFIX)
            known[name] = _Known(decode_user(name, entry.value), entry.revision)
        self._show(known)

    def _show(self, known: Mapping[str, _Known]) -> None:
        self._known = MappingProxyType(dict(known))
        self._checks.forget()
        if self.on_change is not None:
            self.on_change()

    def close(self) -> None:
        """Let go of the thread that checks passwords."""
        self._checks.close()

    # --- Who is there -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> list[User]:
        """Every user who may log in, by name."""
        users = (known.user for _, known in sorted(self._known.items()))
        return [user for user in users if user.keys]

    def find(self, name: str) -> User | None:
        """The user of that name who may log in."""
        known = self._known.get(name)
        return known.user if known is not None and known.user.keys else None

    # --- Logins -----------------------------------------------------------------------------------

    def keys_for_login(self, mechanism: Mechanism, name: str) -> ScramKeys:
        """The user's keys; if there are none, such as look like them and fit no password."""
        user = self.find(name)
        own = None if user is None else user.keys.get(mechanism)
        return own or self._decoy(name, mechanism)

    async def has_password(self, name: str, password: str) -> bool:
        """Whether there is such a user with this password; in a thread, since it takes a while."""
        decoy = partial(self._decoy, name)
        return await self._checks.has_password(self.find(name), name, password, decoy)

    def _decoy(self, name: str, mechanism: Mechanism) -> ScramKeys:
        """As the first user's: with other iterations or a shorter salt it would give itself away.

        From any thread: the users may change meanwhile.
        """
        users = (known.user for known in tuple(self._known.values()))
        like = next((keys for user in users if (keys := user.keys.get(mechanism))), None)
        return self._decoys.keys(name, mechanism, like)

    # --- Changes ----------------------------------------------------------------------------------

    async def alter(self, name: str, changes: Mapping[Mechanism, ScramKeys | None]) -> None:
        """Set or remove (None) a user's keys; all of them or, if one cannot be, none.

        Raises:
            UnacceptableCredentialError: the name is none, or there are too many users.
            UnknownCredentialError: keys that are to be removed do not exist.
        """
        if self.find(name) is None or any(changes.values()):  # any stored name may be removed
            check_user_name(name)
        async with self._changing:
            known = self._known.get(name)
            user = User(name) if known is None else known.user
            for mechanism, keys in changes.items():
                if keys is None and mechanism not in user.keys:
                    raise UnknownCredentialError(f"there is no {mechanism} credential to delete")
                user = user.with_keys(mechanism, keys)
            if known is None and len(self._known) >= _MAX_USERS:
                raise UnacceptableCredentialError(
                    f"there are {_MAX_USERS} users, which is the limit: delete some"
                )
            await self._write(user)

    async def set_password(self, name: str, password: str) -> None:
        """Make a user, or replace all keys of one, with those of a password.

        Raises:
            UnacceptableCredentialError: the name or the password cannot be one.
        """
        if not 0 < len(password) <= _MAX_PASSWORD_CHARS or "\0" in password:
            raise UnacceptableCredentialError(
                f"a password of {len(password)} characters, expected 1 to {_MAX_PASSWORD_CHARS} "
                "without zero bytes"
            )
        made = await self._made(name, password)
        await self.alter(name, made.keys)

    async def _made(self, name: str, password: str) -> User:
        make = partial(new_user, name, password, partial(secrets.token_bytes, SALT_BYTES))
        return await self._checks.run(make)

    async def _make_initial(self, name: str, password: str) -> None:
        known = self._known.get(name)
        if known is None:
            made = await self._made(name, password)
            try:
                await self._write(made)
            except MetadataUnavailableError:
                # The nodes of a cluster that start together make the same users: one is first.
                if self._keeper is None or await self._store.get(_PREFIX + name) is None:
                    raise
        elif not known.user.keys:
            logger.warning("user %r of the configuration was removed and stays removed", name)
        elif not await self.has_password(name, password):
            logger.warning(
                "user %r: the stored password differs from the configuration and stays in use",
                name,
            )

    async def _write(self, user: User) -> None:
        """Durable in the metadata store first, visible to logins after."""
        known = self._known.get(user.name)
        key = _PREFIX + user.name
        # A removed user of the configuration leaves a mark, or the next start would bring it back.
        is_kept = bool(user.keys) or user.name in self._initial
        operation: Operation = Put(key, encode_user(user)) if is_kept else Delete(key)
        condition = Condition(key, ABSENT if known is None else known.revision)
        result = await self._store.transact([condition], [operation])
        if not isinstance(result, Committed):
            raise MetadataUnavailableError(f"user {user.name!r} could not be changed; try again")
        if self._keeper is not None:
            await self._keeper.written(result.revision)
            return
        others = {name: other for name, other in self._known.items() if name != user.name}
        if is_kept:
            others[user.name] = _Known(user, result.revision)
        self._show(others)

    async def _secret(self) -> bytes:
        """Stays the same for ever, so that the salts of users who do not exist do too."""
        made = secrets.token_bytes(_SECRET_BYTES)
        for _ in range(_SECRET_ATTEMPTS):
            entry = await self._store.get(_SECRET_KEY)
            if entry is not None:
                return entry.value
            # Another node may be storing one, too; the next reading tells whose was first.
            result = await self._store.transact(
                [Condition(_SECRET_KEY, ABSENT)], [Put(_SECRET_KEY, made)]
            )
            if isinstance(result, Committed):
                return made
        raise MetadataUnavailableError("the login secret could not be stored; try again")

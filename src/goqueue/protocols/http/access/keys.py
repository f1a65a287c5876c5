"""API keys: made, listed, revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.http.access.access_shapes import (
    KeyBody,
    KeyCreated,
    KeyInfo,
    KeyList,
    KeyPath,
)
from goqueue.protocols.http.api.codecs import duration_ms
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import ALTER, on_cluster
from goqueue.protocols.http.api.route import route

if TYPE_CHECKING:
    from goqueue.access.api_keys import ApiKey
    from goqueue.broker.broker import Broker

_TAG: Final = "access"
_LONGEST_MS: Final = 100 * 366 * 24 * 3600 * 1000


class KeyRoutes:
    """API keys."""

    def __init__(self, broker: Broker) -> None:
        self._keys = broker.access.keys
        self._uses = broker.authenticator.key_uses
        self._administration = broker.access_administration

    @route("POST", "/admin/keys", tag=_TAG, right=on_cluster(ALTER), status=201, place=LOCAL)
    async def create(self, body: KeyBody) -> KeyCreated:
        """Create an API key. The response is the only one that shows it."""
        lifetime_ms = None
        if body.expires_in is not None:
            lifetime_ms = duration_ms(
                body.expires_in, "expires_in", at_most_ms=_LONGEST_MS, location="body"
            )
        made = await self._administration.create_key(
            body.name,
            body.roles,
            tenant=body.tenant,
            lifetime_ms=lifetime_ms,
            metadata=body.metadata,
        )
        return KeyCreated(key=made.key, **self._parts(made.id, made.record))

    @route("GET", "/admin/keys", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def all(self) -> KeyList:
        """List the API keys, without the keys themselves."""
        keys = sorted(self._keys.all.items(), key=lambda item: (item[1].created_ms, item[0]))
        return KeyList([self._info(key_id, key) for key_id, key in keys])

    @route("DELETE", "/admin/keys/{id}", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def revoke(self, path: KeyPath) -> KeyInfo:
        """Revoke an API key at once; one that is revoked already is deleted."""
        return self._info(path.id, await self._administration.revoke_key(path.id))

    def _info(self, key_id: str, key: ApiKey) -> KeyInfo:
        return KeyInfo(**self._parts(key_id, key))

    def _parts(self, key_id: str, key: ApiKey) -> dict[str, Any]:
        return {
            "id": key_id,
            "name": key.name,
            "prefix": key.shown,
            "roles": list(key.roles),
            "tenant": key.tenant,
            "created_at": key.created_ms,
            "expires_at": key.expires_ms,
            "last_used": self._uses.get(key_id),
            "revoked": key.is_revoked,
            "metadata": dict(key.metadata),
        }

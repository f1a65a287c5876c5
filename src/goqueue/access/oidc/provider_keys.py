"""The public keys of an OIDC provider.

The provider says where its keys are (`.well-known/openid-configuration`), unless the settings do.
While it cannot be reached the keys that are known go on to count. A token that is signed with one
of them waits for nothing.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.access.oidc.fetched import Fetched
from goqueue.access.oidc.provider import configuration, read_json
from goqueue.model.errors import AuthenticationFailedError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.access.oidc.threads import OidcThreads
    from goqueue.access.settings import OidcSettings
    from goqueue.runtime.clock import Clock


class KeySet(NamedTuple):
    """The keys that count."""

    keys: Any
    ids: frozenset[str | None]
    content: frozenset[bytes]
    """All that was said of them, to notice others."""

    def has(self, wanted: str | None) -> bool:
        """Whether a token may be signed with the key of that id; None: with any."""
        return wanted is None or wanted in self.ids


class ProviderKeys:
    """The keys of one provider."""

    def __init__(self, settings: OidcSettings, threads: OidcThreads, clock: Clock) -> None:
        self._settings = settings
        self._known = Fetched("the keys", self._fetch, threads, clock)

    @property
    def content(self) -> frozenset[bytes]:
        """Another one as soon as there are other keys."""
        known = self._known.value
        return frozenset() if known is None else known.content

    async def for_token(self, token: str) -> KeySet:
        """The set of keys that a token may be signed with.

        Raises:
            AuthenticationFailedError: there are no keys, or the token names one that is not there.
        """
        wanted = _key_id(token)
        known = self._known.value
        if known is None or not known.has(wanted):
            await self._known.wait()
            known = self._known.value
        elif self._known.is_old:
            self._known.refresh()
        if known is None:
            raise AuthenticationFailedError("the keys of the OIDC provider are not there yet")
        if not known.has(wanted):
            raise AuthenticationFailedError("a token that is signed with an unknown key")
        return known

    def _fetch(self) -> KeySet:
        from joserfc import jwk  # noqa: PLC0415 - a default start does not need it

        known = read_json(self._settings.jwks_url or self._discovered())
        usable = [each for each in known["keys"] if _is_public(each)]
        return KeySet(
            jwk.KeySet.import_key_set({"keys": usable}),
            frozenset(each.get("kid") for each in usable),
            frozenset(msgspec.json.encode(each, order="deterministic") for each in usable),
        )

    def _discovered(self) -> str:
        url = configuration(self._settings.issuer)["jwks_uri"]
        if not isinstance(url, str):
            raise TypeError("the provider has no jwks_uri")
        return url


def _is_public(key: object) -> bool:
    """Shared secrets are never used: a token could be signed with what everybody may read."""
    if not isinstance(key, dict) or key.get("kty") not in {"RSA", "EC", "OKP"}:
        return False
    return bool(key.get("use", "sig") == "sig")


def _key_id(token: str) -> str | None:
    head = token.partition(".")[0]
    try:
        raw = base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))
        header = msgspec.json.decode(raw, type=dict[str, Any])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise AuthenticationFailedError("a bearer token that is neither a key nor a JWT") from error
    found = header.get("kid")
    return found if isinstance(found, str) else None

"""The public keys of an OIDC provider: fetched when they are needed, kept, and fetched again.

The provider says where its keys are (`.well-known/openid-configuration`), unless the settings do.
While it cannot be reached the keys that are known go on to count.
"""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.access.oidc.provider import configuration, read_json
from goqueue.model.errors import AuthenticationFailedError

if TYPE_CHECKING:
    from goqueue.access.settings import OidcSettings
    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

_REFRESH_S: Final = 600.0
"""Keys that are older are fetched again, so that a key that was withdrawn stops to count."""
_RETRY_S: Final = 5.0
"""A key that is not known is looked for at the provider, but not more often than this."""


class ProviderKeys:
    """The keys, for threads of the executor; one of them fetches at a time."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Any = None
        self._ids: frozenset[str | None] = frozenset()
        self._fetched_s: float | None = None
        self._tried_s: float | None = None

    def for_token(self, token: str) -> Any:
        """The set of keys that a token may be signed with.

        Raises:
            AuthenticationFailedError: there are no keys, or the token names one that is not there.
        """
        wanted = _key_id(token)
        with self._lock:
            if self._needs_fetch(wanted):
                self._fetch()
            if self._keys is None:
                raise AuthenticationFailedError("the keys of the OIDC provider are not there yet")
            if wanted is not None and wanted not in self._ids:
                raise AuthenticationFailedError("a token that is signed with an unknown key")
            return self._keys

    def _needs_fetch(self, wanted: str | None) -> bool:
        now_s = self._clock.monotonic_s()
        if self._tried_s is not None and now_s - self._tried_s < _RETRY_S:
            return False
        is_old = self._fetched_s is None or now_s - self._fetched_s > _REFRESH_S
        return is_old or (wanted is not None and wanted not in self._ids)

    def _fetch(self) -> None:
        from joserfc.jwk import KeySet  # noqa: PLC0415 - a default start does not need it

        self._tried_s = self._clock.monotonic_s()
        try:
            url = self._settings.jwks_url or self._discovered()
            known = read_json(url)
            usable = [each for each in known["keys"] if _is_public(each)]
            self._keys = KeySet.import_key_set({"keys": usable})
            self._ids = frozenset(each.get("kid") for each in usable)
            self._fetched_s = self._tried_s
        except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            logger.warning(
                "the keys of the OIDC provider %s could not be fetched: %s: %s",
                self._settings.issuer,
                type(error).__name__,
                error,
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

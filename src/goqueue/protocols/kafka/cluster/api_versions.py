"""ApiVersions: the first thing every client asks, answered from the registry.

A client newer than we are is answered in the layout of version 0, the only one it is sure to
understand, with the versions of ApiVersions itself that we do serve; it asks again in one of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.connected import shown_name
from goqueue.protocols.kafka.registry import ApiKey, Registry, api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import encode_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.protocols.kafka.cluster.features import Feature
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_ADVERTISED_BELOW_SERVED: Final[dict[int, int]] = {ApiKey.PRODUCE: 0}
"""librdkafka 2.0 compresses nothing unless it sees Produce from 0, though it never sends 0 to 2."""

_SOFTWARE_FROM: Final = 3
_ZERO_MINIMUM_FROM: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsApi:
    """Answers for a registry; `with_api_versions` puts it into that registry."""

    def __init__(self, registry: Registry, features: Sequence[Feature] = ()) -> None:
        self._registry = registry
        self._features = features

    @api(ApiKey.API_VERSIONS, right=ANYONE, pipelined=True)
    def api_versions(self, ctx: RequestContext, request: Struct) -> Response:
        """Every API with the versions we serve."""
        if ctx.version >= _SOFTWARE_FROM and not (
            _SOFTWARE.fullmatch(request.client_software_name)
            and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            return {"error_code": ErrorCode.invalid_request}
        if ctx.version >= _SOFTWARE_FROM:
            told = f"{request.client_software_name} {request.client_software_version}"
            ctx.peer.session.software = shown_name(told)
        return {
            "error_code": ErrorCode.none,
            "api_keys": [_entry(key, *each) for key, each in self._registry.versions().items()],
            **self._feature_fields(ctx.version),
        }

    def _feature_fields(self, version: int) -> dict[str, Any]:
        finalised = [f for f in self._features if f.finalised_version is not None]
        return {
            "supported_features": [
                {"name": f.name, "min_version": f.min_version, "max_version": f.max_version}
                for f in self._features
                if f.min_version > 0 or version >= _ZERO_MINIMUM_FROM
            ],
            "finalized_features_epoch": 0 if finalised else -1,
            "finalized_features": [
                {
                    "name": f.name,
                    "min_version_level": f.finalised_version,
                    "max_version_level": f.finalised_version,
                }
                for f in finalised
            ],
        }


def with_api_versions(registry: Registry, features: Sequence[Feature] = ()) -> Registry:
    """The registry, now with ApiVersions in it."""
    registry.add(ApiVersionsApi(registry, features))
    return registry


def unsupported_version_body(registry: Registry) -> bytearray:
    """The answer to an ApiVersions request newer than ours: layout 0, whatever was asked."""
    own = _entry(ApiKey.API_VERSIONS, *registry.versions()[ApiKey.API_VERSIONS])
    fields = {"error_code": ErrorCode.unsupported_version, "api_keys": [own]}
    return encode_body(ApiKey.API_VERSIONS, 0, fields)


def _entry(key: int, first: int, last: int) -> dict[str, int]:
    return {
        "api_key": key,
        "min_version": _ADVERTISED_BELOW_SERVED.get(key, first),
        "max_version": last,
    }

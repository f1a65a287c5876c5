"""Features of the cluster: what this release implements, told by ApiVersions and UpdateFeatures.

Clients follow some of them. `transaction.version` 2 makes the Java producer leave out
AddPartitionsToTxn, since the broker adds partitions by itself (`produce_joining`), and take the
next epoch at the end of each transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import ALTER, cluster
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_TOP_LEVEL_ONLY_FROM: Final = 2


class Feature(msgspec.Struct, frozen=True):
    """A feature that admin tools show and some clients follow; its level is the release's."""

    name: str
    min_version: int
    max_version: int
    finalised_version: int | None = None


FEATURES: Final = (
    Feature("group.version", 0, 1, 1),
    Feature("metadata.version", 7, 30, 30),
    Feature("share.version", 0, 1, 1),
    Feature("streams.version", 0, 1, 1),
    Feature("transaction.version", 0, 2, 2),
)
"""As Apache Kafka 4.3 has them, where this broker does what they stand for."""


class FeaturesApi:
    """Answers who wants other levels: they come with releases, and cannot be set."""

    def __init__(self, features: Sequence[Feature] = FEATURES) -> None:
        self._features = {each.name: each for each in features}

    @api(ApiKey.UPDATE_FEATURES, right=cluster(ALTER))
    def update_features(self, ctx: RequestContext, request: Struct) -> Response:
        """Accept the levels that are in force, refuse all others; all or nothing, as in Kafka."""
        found = {each.feature: self._objection(each) for each in request.feature_updates}
        refused = {name: each for name, each in found.items() if each is not None}
        results = [_result(name, objection) for name, objection in found.items()]
        if not refused or ctx.version < _TOP_LEVEL_ONLY_FROM:
            return {"error_code": ErrorCode.none, "error_message": None, "results": results}
        name, (code, message) = next(iter(refused.items()))
        return {
            "error_code": code,
            "error_message": f"no feature was changed, because of {name!r}: {message}",
        }

    def _objection(self, update: Struct) -> tuple[ErrorCode, str] | None:
        feature = self._features.get(update.feature)
        wanted = update.max_version_level
        if feature is None:
            return ErrorCode.invalid_update_version, "the broker does not have this feature"
        if wanted == feature.finalised_version:
            return None
        if not feature.min_version <= wanted <= feature.max_version:
            supported = f"{feature.min_version} to {feature.max_version}"
            text = f"level {wanted}, the broker supports {supported}"
            return ErrorCode.invalid_update_version, text
        text = f"level {wanted}: this release has level {feature.finalised_version}, unchangeably"
        return ErrorCode.feature_update_failed, text


def _result(name: str, objection: tuple[ErrorCode, str] | None) -> dict[str, Any]:
    code, message = objection or (ErrorCode.none, None)
    return {"feature": name, "error_code": code, "error_message": message}

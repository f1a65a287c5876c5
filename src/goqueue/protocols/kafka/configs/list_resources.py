"""ListConfigResources: what has settings; its version 0 lists client metrics, which nobody has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.protocols.kafka.configs.entries import BROKER, GROUP, TOPIC
from goqueue.protocols.kafka.registry import ApiKey, BrokerApi, api
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_KNOWN: Final = (TOPIC, BROKER, _BROKER_LOGGER, _CLIENT_METRICS, GROUP)
_TYPES_FROM: Final = 1


class ConfigResourcesApi(BrokerApi):
    """Lists the resources that DescribeConfigs can be asked for."""

    @api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1)
    def list_config_resources(self, ctx: RequestContext, request: Struct) -> Response:
        """The resources of the types asked for, or of all; unknown types are refused."""
        asked = [_CLIENT_METRICS]
        if ctx.version >= _TYPES_FROM:
            asked = list(dict.fromkeys(request.resource_types)) or list(_KNOWN)
        if not set(asked) <= set(_KNOWN):
            return {"error_code": ErrorCode.unsupported_version, "config_resources": []}
        resources: list[dict[str, Any]] = [
            {"resource_name": name, "resource_type": kind}
            for kind in asked
            for name in self._names(kind)
        ]
        return {"error_code": ErrorCode.none, "config_resources": resources}

    def _names(self, kind: int) -> Iterable[str]:
        """Loggers and client metrics have no settings here, so there are none of them."""
        if kind == TOPIC:
            return self._broker.topics.catalogue.by_name
        if kind == BROKER:
            return [str(self._broker.settings.node_id)]
        if kind == GROUP:
            queues = [group.group_id for group in self._broker.queues if not group.is_internal]
            return dict.fromkeys((*queues, *self._broker.coordinated_group_configs.names))
        return ()

"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, whatever the settings are of."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.access.rights import CLUSTER_NAME, Operation, ResourceType, Right
from goqueue.model.errors import GoQueueError
from goqueue.protocols.kafka.configs.broker_configs import BrokerResources
from goqueue.protocols.kafka.configs.entries import (
    BROKER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Resources,
)
from goqueue.protocols.kafka.configs.group_configs import GroupResources
from goqueue.protocols.kafka.configs.topic_configs import TopicResources
from goqueue.protocols.kafka.errors import ErrorCode, UnsupportedResourceError, code_for
from goqueue.protocols.kafka.registry import ApiKey, BrokerApi, api
from goqueue.protocols.kafka.rights import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    Needs,
    cluster,
    code_of,
)
from goqueue.protocols.kafka.turns import Each, encode_in_turns, in_turns, once_each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.configs.group_forwarding import GroupForwarding
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct


_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_KNOWN: Final = (TOPIC, BROKER, _BROKER_LOGGER, _CLIENT_METRICS, GROUP)
_TYPES_FROM: Final = 1


class ConfigResourcesApi(BrokerApi):
    """Lists the resources that DescribeConfigs can be asked for."""

    @api(ApiKey.LIST_CONFIG_RESOURCES, right=cluster(DESCRIBE_CONFIGS))
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
            return [str(each.node_id) for each in self._broker.facts.members()]
        if kind == GROUP:
            queues = [group.group_id for group in self._broker.queues if not group.is_internal]
            return dict.fromkeys((*queues, *self._broker.coordinated_group_configs.names))
        return ()


_GUARDED: Final = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}
"""Resources whose settings are guarded by their names; all others belong to the cluster."""


class _EachResource(Needs):
    """A right on each resource whose settings are asked for."""

    def __init__(self, operation: Operation, answers: str) -> None:
        kinds = (*_GUARDED.values(), ResourceType.CLUSTER)
        super().__init__(*(Right(kind, operation) for kind in kinds), note="whose settings, each")
        self._operation = operation
        self._answers = answers

    def admit(self, ctx: RequestContext, request: Any) -> Any:
        """The request with those resources alone that the client may use."""
        kept = []
        for each in request.resources:
            kind = _GUARDED.get(each.resource_type, ResourceType.CLUSTER)
            right = Right(kind, self._operation)
            name = CLUSTER_NAME if kind is ResourceType.CLUSTER else each.resource_name
            if ctx.may.permits(right, name):
                kept.append(each)
            else:
                refused = {**_resource(each), "error_code": code_of(right)}
                ctx.refuse(self._answers, [refused])
        return request.replaced(resources=kept)


_REPEATED: Final = "named more than once in the request; name it once, with all its changes"


class AdminConfigsApi:
    """What administrators read and change of settings."""

    def __init__(self, broker: Broker) -> None:
        self._forwarding: GroupForwarding | None = None
        if broker.facts.is_cluster:
            from goqueue.protocols.kafka.configs.group_forwarding import (  # noqa: PLC0415 - not alone
                GroupForwarding,
            )

            self._forwarding = GroupForwarding(broker)
        self._resources: dict[int, Resources] = {
            TOPIC: TopicResources(broker),
            BROKER: BrokerResources(broker),
            GROUP: GroupResources(broker),
        }

    def _of(self, resource: Struct) -> Resources:
        found = self._resources.get(resource.resource_type)
        if found is None:
            raise UnsupportedResourceError(
                f"resource type {resource.resource_type} has no settings here; topics (2), the "
                "broker (4) and groups (32) have"
            )
        return found

    # --- DescribeConfigs -------------------------------------------------------------------------

    @api(ApiKey.DESCRIBE_CONFIGS, right=_EachResource(DESCRIBE_CONFIGS, "results"))
    async def describe_configs(self, ctx: RequestContext, request: Struct) -> Response:
        """The settings in force, and where each comes from."""
        resources = once_each(request.resources, key=_name_of)
        told = None if self._forwarding is None else await self._forwarding.described(ctx, request)
        describe = partial(self._describe, request=request, told=told)
        return await encode_in_turns(ctx, {"results": Each(resources, describe)})

    def _describe(
        self,
        resource: Struct,
        request: Struct,
        told: dict[tuple[int, str], dict[str, Any]] | None,
    ) -> dict[str, Any]:
        if told and _name_of(resource) in told:
            return told[_name_of(resource)]
        answer: dict[str, Any] = {**_resource(resource), "configs": []}
        try:
            configs = self._of(resource).describe(resource.resource_name)
        except GoQueueError as error:
            return {**answer, "error_code": code_for(error), "error_message": str(error)}
        keys = resource.configuration_keys
        wanted = frozenset(keys) if keys else None
        answer["configs"] = [
            {
                **config,
                "synonyms": config["synonyms"] if request.include_synonyms else [],
                "documentation": config["documentation"] if request.include_documentation else None,
            }
            for config in configs
            if wanted is None or config["name"] in wanted
        ]
        return answer

    # --- AlterConfigs ----------------------------------------------------------------------------

    @api(ApiKey.ALTER_CONFIGS, right=_EachResource(ALTER_CONFIGS, "responses"))
    async def alter_configs(self, ctx: RequestContext, request: Struct) -> Response:
        """Replace everything that was set for a resource."""
        return await self._alter(ctx, request, incremental=False)

    @api(ApiKey.INCREMENTAL_ALTER_CONFIGS, right=_EachResource(ALTER_CONFIGS, "responses"))
    async def incremental_alter_configs(self, ctx: RequestContext, request: Struct) -> Response:
        """Change some settings of a resource and leave the others."""
        return await self._alter(ctx, request, incremental=True)

    async def _alter(self, ctx: RequestContext, request: Struct, *, incremental: bool) -> Response:
        times = Counter(map(_name_of, request.resources))
        results = []
        async for resource in in_turns(once_each(request.resources, key=_name_of)):
            answer = _resource(resource)
            objection = _objection(resource) if incremental else None
            if times[_name_of(resource)] > 1:
                objection = _REPEATED
            if objection is not None:
                answer.update(error_code=ErrorCode.invalid_request, error_message=objection)
            else:
                how = {"incremental": incremental, "dry": request.validate_only}
                try:
                    told = None
                    if self._forwarding is not None:
                        told = await self._forwarding.altered(ctx, resource, **how)
                    if told is None:
                        await self._of(resource).alter(resource, **how)
                    else:
                        answer.update(
                            error_code=told["error_code"], error_message=told["error_message"]
                        )
                except GoQueueError as error:
                    answer.update(error_code=code_for(error), error_message=str(error))
            results.append(answer)
        return {"responses": results}


def _name_of(resource: Struct) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _objection(resource: Struct) -> str | None:
    """What is wrong with a set of changes before any setting is looked at."""
    names = [change.name for change in resource.configs]
    if len(names) != len(set(names)):
        return "a setting is changed more than once"
    for change in resource.configs:
        if not SET <= change.config_operation <= SUBTRACT:
            return f"operation {change.config_operation} on {change.name}, expected 0 to 3"
        if change.value is None and change.config_operation != DELETE:
            return f"{change.name} is given no value"
    return None


def _resource(resource: Struct) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }

"""Settings of topics and groups, and those of the broker that clients look at."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from goqueue.broker.settings import SETTINGS
from goqueue.model.errors import GoQueueError, InvalidTopicConfigError
from goqueue.protocols.kafka.api_keys import ApiKey
from goqueue.protocols.kafka.errors import UnsupportedResourceError, code_for
from goqueue.protocols.kafka.group_configs import GROUP, GroupResources
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.turns import Each, encode_in_turns, in_turns, once_each

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.codec import Response
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.kafka.reading import Struct

TOPIC: Final = 2
BROKER: Final = 4

SOURCE_TOPIC: Final = 1
SOURCE_BROKER: Final = 4
SOURCE_DEFAULT: Final = 5

_REPEATED: Final = "named more than once in the request; name it once, with all its changes"
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}


class AdminConfigsApi:
    """What administrators read and change of settings."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._groups = GroupResources(broker)

    # --- DescribeConfigs -------------------------------------------------------------------------

    @api(ApiKey.DESCRIBE_CONFIGS, 1, 4)
    async def describe_configs(self, ctx: RequestContext, request: Struct) -> Response:
        """The settings in force, and where each comes from."""
        resources = once_each(request.resources, key=_name_of)
        describe = partial(self._describe, request=request)
        return await encode_in_turns(ctx, {"results": Each(resources, describe)})

    def _describe(self, resource: Struct, request: Struct) -> dict[str, Any]:
        answer: dict[str, Any] = {**_resource(resource), "configs": []}
        try:
            configs = self._configs(resource)
        except GoQueueError as error:
            return {**answer, "error_code": code_for(error), "error_message": str(error)}
        keys = resource.configuration_keys
        wanted = None if keys is None else frozenset(keys)
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

    def _configs(self, resource: Struct) -> list[dict[str, Any]]:
        if resource.resource_type == TOPIC:
            return self._topic_configs(resource.resource_name)
        if resource.resource_type == BROKER:
            return self._broker_configs(resource.resource_name)
        if resource.resource_type == GROUP:
            return self._groups.describe(resource.resource_name)
        raise UnsupportedResourceError(
            f"resource type {resource.resource_type} has no settings here; topics (2), the "
            "broker (4) and groups (32) have"
        )

    def _topic_configs(self, name: str) -> list[dict[str, Any]]:
        settings = self._broker.topics.catalogue.topic(name).settings
        configs = []
        for setting in SETTINGS.values():
            value = settings.text(setting.name)
            synonyms = [{"name": setting.name, "value": setting.default, "source": SOURCE_DEFAULT}]
            source = SOURCE_DEFAULT
            of_broker = settings.defaults.get(setting.name, setting.default)
            if of_broker != setting.default:
                source = SOURCE_BROKER
                synonyms.insert(0, _synonym(setting.name, of_broker, source))
            if setting.name in settings.overrides:
                source = SOURCE_TOPIC
                synonyms.insert(0, _synonym(setting.name, value, source))
            configs.append(
                {
                    "name": setting.name,
                    "value": value,
                    "read_only": False,
                    "config_source": source,
                    "is_sensitive": False,
                    "synonyms": synonyms,
                    "config_type": _TYPES[setting.kind],
                    "documentation": setting.documentation,
                }
            )
        return configs

    def _broker_configs(self, name: str) -> list[dict[str, Any]]:
        """What Kafka's tools look for; all of it is set by the server's own configuration."""
        settings = self._broker.settings
        if name not in {"", str(settings.node_id)}:
            raise InvalidTopicConfigError(f"there is no broker {name!r}, only {settings.node_id}")
        values = {
            "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
            "broker.id": str(settings.node_id),
            "default.replication.factor": "1",
            "delete.topic.enable": "true",
            "num.partitions": str(settings.default_partitions),
            "offsets.topic.num.partitions": str(settings.offsets_partitions),
            "group.initial.rebalance.delay.ms": str(settings.groups.initial_rebalance_delay_ms),
            "group.min.session.timeout.ms": str(settings.groups.min_session_timeout_ms),
            "group.max.session.timeout.ms": str(settings.groups.max_session_timeout_ms),
            "message.max.bytes": self._default("max.message.bytes"),
            "log.retention.ms": self._default("retention.ms"),
            "log.retention.bytes": self._default("retention.bytes"),
            "log.segment.bytes": self._default("segment.bytes"),
            "log.cleanup.policy": self._default("cleanup.policy"),
            "compression.type": self._default("compression.type"),
            "min.insync.replicas": self._default("min.insync.replicas"),
            "log.dirs": str(settings.data_dir),
        }
        return [
            {
                "name": key,
                "value": value,
                "read_only": True,
                "config_source": SOURCE_BROKER,
                "is_sensitive": False,
                "synonyms": [_synonym(key, value, SOURCE_BROKER)],
                "config_type": _TYPES["string"],
                "documentation": None,
            }
            for key, value in values.items()
        ]

    def _default(self, name: str) -> str:
        return self._broker.settings.topic_defaults.get(name, SETTINGS[name].default)

    # --- AlterConfigs ----------------------------------------------------------------------------

    @api(ApiKey.ALTER_CONFIGS, 0, 2)
    async def alter_configs(self, ctx: RequestContext, request: Struct) -> Response:
        """Replace all settings that were said for a topic or a group."""
        results = []
        times = Counter(map(_name_of, request.resources))
        async for resource in in_turns(once_each(request.resources, key=_name_of)):
            if times[_name_of(resource)] > 1:
                results.append(_objected(resource, _REPEATED))
                continue
            if resource.resource_type == GROUP:
                change = self._groups.replace(resource, dry=request.validate_only)
                results.append(await _outcome(resource, change))
                continue
            overrides = {each.name: each.value or "" for each in resource.configs}
            results.append(await self._alter(resource, overrides, dry=request.validate_only))
        return {"responses": results}

    @api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
    async def incremental_alter_configs(self, ctx: RequestContext, request: Struct) -> Response:
        """Change some settings of a topic or a group and leave the others."""
        results = []
        times = Counter(map(_name_of, request.resources))
        async for resource in in_turns(once_each(request.resources, key=_name_of)):
            objection = _REPEATED if times[_name_of(resource)] > 1 else _objection(resource)
            if objection is not None:
                results.append(_objected(resource, objection))
                continue
            if resource.resource_type == GROUP:
                change = self._groups.change(resource, dry=request.validate_only)
                results.append(await _outcome(resource, change))
                continue
            try:
                overrides = self._incremental(resource)
            except GoQueueError as error:
                results.append(_refused(resource, error))
                continue
            results.append(await self._alter(resource, overrides, dry=request.validate_only))
        return {"responses": results}

    def _incremental(self, resource: Struct) -> dict[str, str]:
        _require_topic(resource)
        settings = self._broker.topics.catalogue.topic(resource.resource_name).settings
        overrides = dict(settings.overrides)
        for change in resource.configs:
            if change.config_operation == _SET:
                overrides[change.name] = change.value or ""
            elif change.config_operation == _DELETE:
                overrides.pop(change.name, None)
            else:
                overrides[change.name] = _edited_list(settings.text, change)
        return overrides

    async def _alter(
        self, resource: Struct, overrides: dict[str, str], *, dry: bool
    ) -> dict[str, Any]:
        try:
            _require_topic(resource)
            if dry:
                self._broker.topics.plan_settings(resource.resource_name, overrides)
            else:
                await self._broker.configure_topic(resource.resource_name, overrides)
        except GoQueueError as error:
            return _refused(resource, error)
        return _resource(resource)


def _name_of(resource: Struct) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _objected(resource: Struct, objection: str) -> dict[str, Any]:
    code = ErrorCode.invalid_request
    return {**_resource(resource), "error_code": code, "error_message": objection}


def _objection(resource: Struct) -> str | None:
    """What is wrong with a set of changes before any setting is looked at."""
    names = [change.name for change in resource.configs]
    if len(names) != len(set(names)):
        return "a setting is changed more than once"
    for change in resource.configs:
        if not _SET <= change.config_operation <= _SUBTRACT:
            return f"operation {change.config_operation} on {change.name}, expected 0 to 3"
        if change.value is None and change.config_operation != _DELETE:
            return f"{change.name} is given no value"
    return None


def _edited_list(text: Any, change: Struct) -> str:
    """A list setting with an item appended or taken away."""
    setting = SETTINGS.get(change.name)
    if setting is None or setting.kind != "list":
        raise InvalidTopicConfigError(f"{change.name} is not a list: set it as a whole")
    items = [item for item in text(change.name).split(",") if item]
    for item in (change.value or "").split(","):
        if change.config_operation == _APPEND and item not in items:
            items.append(item)
        elif change.config_operation == _SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _require_topic(resource: Struct) -> None:
    if resource.resource_type != TOPIC:
        raise UnsupportedResourceError(
            f"settings of resource type {resource.resource_type} cannot be changed while running; "
            "those of topics (2) and groups (32) can"
        )


async def _outcome(resource: Struct, change: Awaitable[None]) -> dict[str, Any]:
    try:
        await change
    except GoQueueError as error:
        return _refused(resource, error)
    return _resource(resource)


def _resource(resource: Struct) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _refused(resource: Struct, error: GoQueueError) -> dict[str, Any]:
    return {**_resource(resource), "error_code": code_for(error), "error_message": str(error)}


def _synonym(name: str, value: str, source: int) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source}

"""Topics as drivers make and look at them: new ones, and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.client.link.codes import check_code
from goqueue.spark.errors import BrokerRefusedError, OptionsError, TopicMissingError
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.spark.kafka.cluster import Cluster

CREATE_TOPICS_VERSION: Final = 7
DESCRIBE_CONFIGS_VERSION: Final = 4
_TOPIC: Final = 2
_SET_FOR_THE_TOPIC: Final = 1


def create_topic(
    cluster: Cluster, name: str, partitions: int, settings: Mapping[str, str] | None = None
) -> None:
    """Make a topic.

    Raises:
        OptionsError: its name or a setting makes no sense, in the broker's words.
    """
    what = f"creating topic {name!r}"

    async def create() -> None:
        made = await _ask_for_topic(cluster, name, partitions, settings or {})
        if made.error_code and made.error_message:
            raise OptionsError([f"topic {name!r} cannot be made: {made.error_message}"])
        check_code(made.error_code, what)

    cluster.retry(what, create)


def ensure_topic(
    cluster: Cluster, name: str, partitions: int, settings: Mapping[str, str] | None = None
) -> bool:
    """Make a topic unless it is there; says whether it is new. One that is there stays as it is."""

    async def ensure() -> bool:
        made = await _ask_for_topic(cluster, name, partitions, settings or {})
        if made.error_code == ErrorCode.topic_already_exists:
            return False
        reason = f" ({made.error_message})" if made.error_message else ""
        check_code(made.error_code, f"topic {name!r}{reason}")
        return True

    return cluster.retry(f"creating topic {name!r}", ensure)


async def _ask_for_topic(
    cluster: Cluster, name: str, partitions: int, settings: Mapping[str, str]
) -> Any:
    wanted = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in settings.items()],
    }
    answer = await cluster.link.ask(
        ApiKey.CREATE_TOPICS,
        CREATE_TOPICS_VERSION,
        topics=[wanted],
        timeout_ms=round(cluster.settings.client.call_timeout_ms),
        validate_only=False,
    )
    (made,) = answer.topics
    return made


def topic_settings(cluster: Cluster, name: str, *, only_own: bool = False) -> dict[str, str]:
    """The settings of a topic: those in force, or only those that were set for it."""
    found = _described(cluster, name, None)
    return {
        each.name: each.value
        for each in found.configs
        if each.value is not None and (not only_own or each.config_source == _SET_FOR_THE_TOPIC)
    }


def topic_setting(cluster: Cluster, topic: str, name: str) -> str | None:
    """What a topic's setting is; None where the broker has no such setting, or no such topic."""
    try:
        found = _described(cluster, topic, [name])
    except (BrokerRefusedError, TopicMissingError):
        return None
    return next((str(each.value) for each in found.configs if each.name == name), None)


def _described(cluster: Cluster, topic: str, names: list[str] | None) -> Any:
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": names}

    async def describe() -> Any:
        answer = await cluster.link.ask(
            ApiKey.DESCRIBE_CONFIGS,
            DESCRIBE_CONFIGS_VERSION,
            resources=[resource],
            include_synonyms=False,
            include_documentation=False,
        )
        (found,) = answer.results
        check_code(found.error_code, f"settings of topic {topic!r}", found.error_message)
        return found

    return cluster.retry(f"looking up the settings of {topic!r}", describe)

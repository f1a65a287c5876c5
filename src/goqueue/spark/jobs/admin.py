"""Topics as a job makes them: like another one, or new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.errors import OptionsError
from goqueue.spark.kafka.cluster import check_code
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.spark.kafka.cluster import Cluster

_CREATE_TOPICS_VERSION: Final = 7
_DESCRIBE_CONFIGS_VERSION: Final = 4
_TOPIC: Final = 2
_SET_FOR_THE_TOPIC: Final = 1
_TIMEOUT_MS: Final = 30_000


def create_topic(
    cluster: Cluster, name: str, partitions: int, settings: Mapping[str, str] | None = None
) -> None:
    """Make a topic.

    Raises:
        OptionsError: its name or a setting makes no sense, in the broker's words.
    """
    wanted = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in (settings or {}).items()],
    }
    answer = cluster.patiently(
        f"creating topic {name!r}",
        lambda: cluster.to_any().call(
            ApiKey.CREATE_TOPICS,
            _CREATE_TOPICS_VERSION,
            topics=[wanted],
            timeout_ms=_TIMEOUT_MS,
            validate_only=False,
        ),
    )
    (made,) = answer.topics
    if made.error_code and made.error_message:
        raise OptionsError([f"topic {name!r} cannot be made: {made.error_message}"])
    check_code(made.error_code, f"creating topic {name!r}")


def topic_settings(cluster: Cluster, name: str, *, only_own: bool = False) -> dict[str, str]:
    """The settings of a topic: those in force, or only those that were set for it."""
    answer = cluster.patiently(
        f"looking up the settings of {name!r}",
        lambda: cluster.to_any().call(
            ApiKey.DESCRIBE_CONFIGS,
            _DESCRIBE_CONFIGS_VERSION,
            resources=[
                {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None}
            ],
            include_synonyms=False,
            include_documentation=False,
        ),
    )
    (found,) = answer.results
    check_code(found.error_code, f"settings of topic {name!r}")
    return {
        each.name: each.value
        for each in found.configs
        if each.value is not None and (not only_own or each.config_source == _SET_FOR_THE_TOPIC)
    }

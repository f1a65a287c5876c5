"""What settings of topics, of the broker and of groups have in common on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.model.errors import InvalidTopicConfigError
from goqueue.model.tuples import NamedTuple
from goqueue.topics.setting import Setting, items

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goqueue.protocols.kafka.configs.share_settings import ShareSetting
    from goqueue.wire.kafka.reading import Struct

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32

SOURCE_TOPIC: Final = 1
SOURCE_NODE: Final = 2
SOURCE_CLUSTER: Final = 3
SOURCE_STATIC: Final = 4
SOURCE_DEFAULT: Final = 5
SOURCE_GROUP: Final = 8

SET, DELETE, APPEND, SUBTRACT = range(4)
_TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}


class Synonym(NamedTuple):
    """One value of a setting: under which name it was given, and where."""

    name: str
    value: str
    source: int


class Resources(Protocol):
    """Everything of one type that has settings."""

    def describe(self, name: str) -> list[dict[str, Any]]:
        """The settings of one resource, as DescribeConfigs reports them."""

    async def alter(self, resource: Struct, *, incremental: bool, dry: bool) -> None:
        """Change settings; those not named stay if incremental, else go back to their defaults."""


def described(
    setting: Setting | ShareSetting, synonyms: Sequence[Synonym], *, read_only: bool = False
) -> dict[str, Any]:
    """One setting for DescribeConfigs; the first synonym is in force."""
    return {
        "name": setting.name,
        "value": synonyms[0].value,
        "read_only": read_only,
        "config_source": synonyms[0].source,
        "is_sensitive": False,
        "synonyms": [each._asdict() for each in synonyms],
        "config_type": _TYPES[setting.kind],
        "documentation": setting.documentation,
    }


def given(resource: Struct) -> dict[str, str]:
    """The settings that an AlterConfigs or a CreateTopics names.

    Raises:
        InvalidTopicConfigError: one has no value.
    """
    for each in resource.configs:
        if each.value is None:
            raise InvalidTopicConfigError(
                f"{each.name} is given no value, expected one: leave it out for its default"
            )
    return {each.name: each.value for each in resource.configs}


def changed(
    resource: Struct,
    overrides: Mapping[str, str],
    kind_of: Callable[[str], str | None],
    text_of: Callable[[str], str],
) -> dict[str, str]:
    """What was set, with the changes that an IncrementalAlterConfigs names.

    Raises:
        InvalidTopicConfigError: an item is added to something that is no list.
    """
    result = dict(overrides)
    for change in resource.configs:
        if change.config_operation == SET:
            result[change.name] = change.value
        elif change.config_operation == DELETE:
            result.pop(change.name, None)
        elif kind_of(change.name) != "list":
            raise InvalidTopicConfigError(f"{change.name} is not a list: set it as a whole")
        else:
            result[change.name] = _edited(text_of(change.name), change)
    return result


def _edited(text: str, change: Struct) -> str:
    """A list with items appended or taken away."""
    present, named = items(text), items(change.value)
    if change.config_operation == APPEND:
        return ",".join(dict.fromkeys((*present, *named)))
    return ",".join(item for item in present if item not in named)

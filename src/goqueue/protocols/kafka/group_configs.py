"""Settings of groups (resource type 32), as administrators of Kafka read and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.broker.group_configs import GROUP_SETTINGS, GroupConfigs
from goqueue.broker.share_members import NEW_SHARE_GROUP
from goqueue.model.errors import InvalidTopicConfigError

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.reading import Struct

GROUP: Final = 32
SOURCE_GROUP: Final = 8
_SOURCE_DEFAULT: Final = 5
_TYPES: Final = {"string": 2, "int": 3}
_SET, _DELETE = range(2)


class GroupResources:
    """Groups as resources that have settings."""

    def __init__(self, broker: Broker) -> None:
        self._configs = GroupConfigs(broker)

    def describe(self, group_id: str) -> list[dict[str, Any]]:
        """Every setting of a group, whether it exists or not."""
        settings = self._configs.settings(group_id)
        found = []
        for setting in GROUP_SETTINGS.values():
            value, default = setting.text(settings), setting.text(NEW_SHARE_GROUP)
            synonyms = [{"name": setting.name, "value": default, "source": _SOURCE_DEFAULT}]
            if value != default:
                synonyms.insert(0, {"name": setting.name, "value": value, "source": SOURCE_GROUP})
            found.append(
                {
                    "name": setting.name,
                    "value": value,
                    "read_only": False,
                    "config_source": synonyms[0]["source"],
                    "is_sensitive": False,
                    "synonyms": synonyms,
                    "config_type": _TYPES[setting.kind],
                    "documentation": setting.documentation,
                }
            )
        return found

    async def replace(self, resource: Struct, *, dry: bool) -> None:
        """AlterConfigs: what is not named goes back to its default."""
        changes: dict[str, str | None] = dict.fromkeys(GROUP_SETTINGS)
        changes.update({each.name: each.value for each in resource.configs})
        await self._change(resource.resource_name, changes, dry=dry)

    async def change(self, resource: Struct, *, dry: bool) -> None:
        """IncrementalAlterConfigs: what is not named stays as it is."""
        changes: dict[str, str | None] = {}
        for each in resource.configs:
            if each.config_operation not in {_SET, _DELETE}:
                raise InvalidTopicConfigError(f"{each.name} is not a list: set it as a whole")
            changes[each.name] = each.value if each.config_operation == _SET else None
        await self._change(resource.resource_name, changes, dry=dry)

    async def _change(self, group_id: str, changes: dict[str, str | None], *, dry: bool) -> None:
        if dry:
            self._configs.changed(group_id, changes)
        else:
            await self._configs.configure(group_id, changes)

"""The nodes that take part in a job, and how each is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.model.error_names import named_error
from goqueue.model.errors import BackupUnavailableError, ClusterError
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.backup.agent import NodeAgent
    from goqueue.topics.routes import Routes

_ANSWER_S: Final = 30.0
_LOOK_S: Final = 0.02
_LONGEST_LOOK_S: Final = 0.2


class Nodes:
    """This node, and in a cluster the others that serve clients."""

    def __init__(self, agent: NodeAgent, routes: Routes) -> None:
        self._agent = agent
        self._routes = routes

    def all(self) -> list[int]:
        """Their ids, this node first."""
        return [self._routes.node_id, *(self._routes.others() if self._routes.is_cluster else ())]

    async def ask(self, node_id: int, token: str, action: str, **asked: Any) -> dict[str, Any]:
        """Let one node do something.

        Raises:
            GoQueueError: what it has raised.
            BackupUnavailableError: it does not answer.
        """
        if node_id == self._routes.node_id:
            return await self._agent.handle(token, action, asked)
        try:
            answer = await self._routes.peers.ask(
                node_id,
                ApiKey.BACKUP_PART,
                0,
                wait_s=_ANSWER_S,
                token=token,
                action=action,
                asked=msgspec.json.encode(asked),
            )
        except ClusterError as error:
            raise BackupUnavailableError(f"node {node_id} does not answer: {error}") from error
        if answer.error_name:
            raise named_error(answer.error_name, f"node {node_id}: {answer.error_message}")
        found: dict[str, Any] = msgspec.json.decode(bytes(answer.answer))
        return found

    async def ask_all(
        self, nodes: Iterable[int], token: str, action: str, **asked: Any
    ) -> list[dict[str, Any]]:
        """Let nodes do the same at once. Raises what the first has raised, after all are done."""
        asking = [asyncio.ensure_future(self.ask(each, token, action, **asked)) for each in nodes]
        await asyncio.wait(asking)
        return [each.result() for each in asking]

    async def work(
        self,
        nodes: list[int],
        token: str,
        action: str,
        *,
        on_progress: Callable[[int], None],
        **asked: Any,
    ) -> list[dict[str, Any]]:
        """Let nodes work on something, and wait for all; returns their last answers."""
        await self.ask_all(nodes, token, action, **asked)
        look_s = _LOOK_S
        while True:
            await asyncio.sleep(look_s)
            look_s = min(look_s * 1.5, _LONGEST_LOOK_S)
            answers = await self.ask_all(nodes, token, "progress")
            on_progress(sum(each["done_bytes"] for each in answers))
            if all(each["is_done"] for each in answers):
                return answers

"""What a node does for a backup or a restore that another node runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.broker.lazy_backups import LazyBackups
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.wire.kafka.reading import Struct


class BackupPartApi:
    """Serves `goqueue.backup.nodes.Nodes` of the other nodes."""

    def __init__(self, backups: LazyBackups) -> None:
        self._backups = backups

    @api(ApiKey.BACKUP_PART, 0, 0, right=NODES)
    async def backup_part(self, _ctx: RequestContext, request: Struct) -> Response:
        """Do one thing for a job, or say why not."""
        try:
            asked = msgspec.json.decode(bytes(request.asked), type=dict)
            agent = self._backups.service.agent
            answer = await agent.handle(request.token, request.action, asked)
        except GoQueueError as error:
            return _answer(code_for(error), type(error).__name__, str(error), b"")
        return _answer(ErrorCode.none, "", "", msgspec.json.encode(answer))


def _answer(code: ErrorCode, name: str, text: str, answer: bytes) -> Response:
    return {
        "throttle_time_ms": 0,
        "error_code": code,
        "error_name": name,
        "error_message": text,
        "answer": answer,
    }

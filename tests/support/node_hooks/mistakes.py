"""Mistakes that a test plants in brokers: each is one that a judge of `cluster.chaos` must find."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKE: Final = "NODE_HOOKS_MISTAKE"
"""The variable that names the mistake of a broker."""
_SOME: Final = 0.05
_EARLY_MS: Final = 1500


def acknowledged_before_commit() -> None:
    """A producer is answered as soon as the leader alone has its messages."""
    from goqueue.partitions.replication.replicated_commit import ReplicatedCommit  # noqa: PLC0415
    from goqueue.wire.kafka.replies import Reply  # noqa: PLC0415

    def acknowledged(_commit: ReplicatedCommit, _end_offset: int) -> Reply[None]:
        reply: Reply[None] = Reply()
        reply.set_result(None)
        return reply

    patched: Any = ReplicatedCommit
    patched.acknowledged = acknowledged


def aborted_is_readable() -> None:
    """Readers of committed messages get those of aborted transactions as well."""
    from goqueue.reading import fetch  # noqa: PLC0415

    patched: Any = fetch
    fetched = patched._fetched

    def without_aborted(*told: Any, **named: Any) -> Any:
        return replace(fetched(*told, **named), aborted=())

    patched._fetched = without_aborted


def acknowledgement_released() -> None:
    """Some messages that were acknowledged go back to their queue."""
    from goqueue.queues.delivery import decisions  # noqa: PLC0415

    patched: Any = decisions
    decide = patched.decide

    def released(said: Any, *told: Any) -> Any:
        if said.verdict is decisions.Verdict.ACK and random.random() < _SOME:
            said = said._replace(verdict=decisions.Verdict.RELEASE)
        return decide(said, *told)

    patched.decide = released


def due_too_early() -> None:
    """Delayed messages are handed over before they are due."""
    from goqueue.delays.due.wheel import Wheel  # noqa: PLC0415

    patched: Any = Wheel
    advance = patched.advance

    def early(wheel: Wheel, now_ms: int) -> Any:
        return advance(wheel, now_ms + _EARLY_MS)

    patched.advance = early


def version_missed() -> None:
    """No node takes in every third version of the subjects."""
    from goqueue.schemas.state import RegistryState  # noqa: PLC0415

    patched: Any = RegistryState
    apply_version = patched._apply_version

    def missed(state: RegistryState, subject: str, number: int, value: Any) -> None:
        if number % 3:
            apply_version(state, subject, number, value)

    patched._apply_version = missed


ALL: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        acknowledged_before_commit,
        aborted_is_readable,
        acknowledgement_released,
        due_too_early,
        version_missed,
    )
}

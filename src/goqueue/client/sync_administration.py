"""Topics, groups, offsets and receipts, for programs without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goqueue.client.administration import AsyncGroups, AsyncOffsets, AsyncTopics
    from goqueue.client.receipts import AsyncReceipts
    from goqueue.client.sync_client import LoopThread
    from goqueue.client.types import Group, GroupOffset, OffsetChange, Place, Start, Time, Topic
    from goqueue.model.errors import GoQueueError


class Topics:
    """`client.topics`."""

    def __init__(self, thread: LoopThread, inner: AsyncTopics) -> None:
        self._call = thread.call
        self._inner = inner

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic, with the broker's number of partitions unless told otherwise."""
        return self._call(self._inner.create(name, partitions=partitions, settings=settings))

    def list(self, *, include_internal: bool = False) -> list[Topic]:
        """Every topic, by name."""
        return self._call(self._inner.list(include_internal=include_internal))

    def describe(self, name: str) -> Topic:
        """One topic."""
        return self._call(self._inner.describe(name))

    def configure(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        *,
        unset: Iterable[str] = (),
    ) -> Topic:
        """Set some settings and take others back; those not named stay."""
        return self._call(self._inner.configure(name, settings, unset=unset))

    def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, so many in all."""
        return self._call(self._inner.grow(name, partitions))

    def delete(self, name: str) -> None:
        """Forget a topic and its messages."""
        self._call(self._inner.delete(name))


class Groups:
    """`client.groups`."""

    def __init__(self, thread: LoopThread, inner: AsyncGroups) -> None:
        self._call = thread.call
        self._inner = inner

    def list(self) -> list[Group]:
        """Every group, by name, without members and offsets."""
        return self._call(self._inner.list())

    def describe(self, name: str) -> Group:
        """One group."""
        return self._call(self._inner.describe(name))

    def delete(self, name: str) -> None:
        """Delete a group without members, with its offsets."""
        self._call(self._inner.delete(name))


class Offsets:
    """`client.offsets`: of groups whose members are elsewhere, or gone."""

    def __init__(self, thread: LoopThread, inner: AsyncOffsets) -> None:
        self._call = thread.call
        self._inner = inner

    def fetch(self, group: str, partitions: Sequence[Place] = ()) -> list[GroupOffset]:
        """How far a group has read; without partitions, all that it has committed."""
        return self._call(self._inner.fetch(group, partitions))

    def commit(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Say where a group goes on reading; see `AsyncOffsets.commit`."""
        self._call(self._inner.commit(group, offsets))

    def reset(
        self,
        group: str,
        topic: str,
        to: Start,
        *,
        partitions: Sequence[int] = (),
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Let a group go on reading elsewhere; with `dry_run`, only say what would change."""
        return self._call(
            self._inner.reset(group, topic, to, partitions=partitions, dry_run=dry_run)
        )


class Receipts:
    """`client.receipts`; see `AsyncReceipts`."""

    def __init__(self, thread: LoopThread, inner: AsyncReceipts) -> None:
        self._call = thread.call
        self._inner = inner

    def ack(self, receipt_handle: str) -> None:
        """It is processed."""
        self._call(self._inner.ack(receipt_handle))

    def nack(self, receipt_handle: str, *, delay: Time | None = None, reason: str = "") -> None:
        """It failed for now. It comes again after a delay (seconds), or as the group says."""
        self._call(self._inner.nack(receipt_handle, delay=delay, reason=reason))

    def reject(self, receipt_handle: str, reason: str) -> None:
        """It will never succeed: it is put with the dead letters."""
        self._call(self._inner.reject(receipt_handle, reason))

    def extend(self, receipt_handle: str, seconds: Time) -> None:
        """It takes so much longer from now on."""
        self._call(self._inner.extend(receipt_handle, seconds))

    def ack_all(self, receipt_handles: Sequence[str]) -> list[GoQueueError | None]:
        """All of them are processed; for each, why that does not count, or None."""
        return self._call(self._inner.ack_all(receipt_handles))

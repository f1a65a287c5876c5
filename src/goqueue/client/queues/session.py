"""A member of a queue group: takes messages, acknowledges them, and joins again when it must.

Messages wait here until the program asks for them, no more than `prefetch` of them. While they do,
their visibility timeout is renewed; when the queue is closed they are returned as if they had never
been delivered. What the program has taken and not acknowledged is redelivered too, and that
delivery counts.

Fetches wait at the broker, so they have a connection of their own, which is the member's: when it
is lost, what the member has goes to others. Acknowledgements ride on a fetch that is just being
sent, or travel by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from goqueue.client.errors import BrokerUnavailableError, ClientClosedError, ClientError
from goqueue.client.link.codes import error_named
from goqueue.client.link.link import GROUP_KEY
from goqueue.client.queues.acknowledgements import EXTEND, RETURN, Acknowledgement
from goqueue.client.queues.acknowledging import (
    Acknowledger,
    Frame,
    PendingAcknowledgement,
    results_of,
    settlements_of,
)
from goqueue.client.queues.holding import Holding
from goqueue.client.queues.member import Member
from goqueue.client.queues.messages import Delivered
from goqueue.client.queues.receiving import received
from goqueue.model.errors import (
    FencedMemberEpochError,
    GoQueueError,
    ReceiptError,
    UnknownMemberError,
)
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goqueue.client.link.link import Link
    from goqueue.client.queues.member import Join
    from goqueue.client.queues.messages import Owner
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.kafka.reading import Struct

_log = logging.getLogger(__name__)

_VERSION: Final = 2
_WAIT_MS: Final = 5000
_MAX_BYTES: Final = 4 * 1024 * 1024
_NEVER_MORE: Final = 1
"""The acquire mode in which a fetch brings no more messages than were asked for."""
_ACKNOWLEDGERS: Final = 2
_LOOK_S: Final = 1.0
"""How often a member without room looks whether what it has was forgotten."""
_RENEWALS: Final = 4
"""How often the time of a message that waits here is renewed before it would be over."""
_SHORTEST_RENEWAL_S: Final = 0.02
_ACK_LANE: Final = "acknowledge"

M = TypeVar("M", bound=Delivered)


class QueueSession(Generic[M]):
    """The member behind a queue, whoever takes from it."""

    def __init__(self, link: Link, join: Join, kind: type[M], owner: Owner | None = None) -> None:
        """Hand out messages of a class; `owner` is told what becomes of them, if not this."""
        self.messages: deque[M] = deque()
        """What has come and was not taken; other threads may take from it."""
        self.is_draining = self.is_closed = False
        self.acknowledger = Acknowledger(
            link.settings.call_timeout_ms / 1000, self._have_work, self._answered
        )
        self._link, self._join = link, join
        self._owner, self._kind = owner or self, kind
        self._holding = Holding(join.prefetch)
        self._lane = f"queue {join.member_id}"
        self._member = Member(link, join, self._assigned)
        self._joining = asyncio.Lock()
        self._idle: list[asyncio.Future[None]] = []
        """Those who wait for acknowledgements to send; one of them is woken for each frame."""
        self._room = asyncio.Event()
        """There may be room for more messages."""
        self._news = asyncio.Event()
        self._failure: GoQueueError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member takes from at the moment."""
        return self._member.assignment

    # --- From joining to leaving -----------------------------------------------------------------

    async def open(self) -> None:
        """Join the group.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        await self._link.retry(f"joining group {self._join.group!r}", self._member.join)
        self._fetching = self._start(self._fetch_forever())
        self._start(self._send_heartbeats())
        self._start(self._renew())
        for _ in range(_ACKNOWLEDGERS):
            self._start(self._acknowledge_forever())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"goqueue queue {self._join.group}")
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whatever goes wrong is told: nobody must wait for what will never come."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, GoQueueError):
            self._give_up(error)
        elif error is not None:
            _log.error("group %s cannot be read on", self._join.group, exc_info=error)
            self._give_up(ClientError(f"the queue cannot be read on: {error!r}"))

    async def drain(self) -> None:
        """Take no more messages, and return what nobody has taken. Raises like `open`."""
        self.is_draining = True
        self._news.set()
        self._room.set()
        if self._failure is None and self._fetching is not None:
            await self._member.stay(is_draining=True)
            await asyncio.wait([self._fetching])
            self._give_back(self.messages)

    async def close(self) -> None:
        """Return what nobody has taken, send acknowledgements, and leave the group."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            async with asyncio.timeout(self._link.settings.call_timeout_ms / 1000):
                await self.drain()
                if self._failure is None:
                    await self.acknowledger.flush()
        except (GoQueueError, TimeoutError) as error:
            _log.warning("some acknowledgements were not stored: %s", error)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with suppress(GoQueueError):
                await self._member.leave()
            self._link.hang_up(self._lane)
            self.acknowledger.fail_all(ClientClosedError("the queue was closed"))

    def _give_back(self, messages: deque[M] | list[M]) -> None:
        """Make as if messages had never been delivered."""
        said = Acknowledgement(RETURN, is_quiet=True)
        while messages:
            message = messages.pop()
            self.acknowledger.add(message.deliveries, message.at, said)

    # --- Taking and settling ---------------------------------------------------------------------

    async def wait(self) -> bool:
        """Until something has come; False when nothing will come any more.

        Raises:
            GoQueueError: the broker refuses to go on.
        """
        while not self.messages:
            if self._failure is not None:
                raise self._failure
            if self.is_draining:
                return False
            self._look_for_room()
            self._news.clear()
            await self._news.wait()
        return True

    def settle(
        self, message: Delivered, said: Acknowledgement, *, wait: bool = False
    ) -> PendingAcknowledgement:
        """Acknowledge a message; nothing is waited for here.

        Raises:
            ClientClosedError: the queue was closed, and its messages were returned.
        """
        del wait
        if self.is_closed:
            raise ClientClosedError("the queue was closed, and its messages were returned")
        deliveries, at = message.deliveries, message.at
        if said.verdict != EXTEND:
            deliveries.settled[at] = 1
        return PendingAcknowledgement(self.acknowledger.add(deliveries, at, said), deliveries, at)

    def _have_work(self) -> None:
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(None)
                return

    def _look_for_room(self) -> None:
        """Ask for more, if there is room."""
        if self._holding.is_roomy(len(self.messages)):
            self._room.set()

    def _answered(self, frame: Frame) -> None:
        """The broker has answered a frame: what it settles is not the member's any more."""
        if frame.said.verdict == EXTEND:
            now_s = asyncio.get_running_loop().time()
            delay_ms = frame.said.delay_ms
            until_s = now_s + (self._member.visibility_s if delay_ms is None else delay_ms / 1000)
            for deliveries in frame.places:
                deliveries.until_s = until_s
            return
        for deliveries, places in frame.places.items():
            self._holding.gave(deliveries, len(places))
        self._look_for_room()

    async def _renew(self) -> None:
        """Keep what waits here from being handed to somebody else."""
        while True:
            await asyncio.sleep(max(self._member.visibility_s / _RENEWALS, _SHORTEST_RENEWAL_S))
            said = Acknowledgement(
                EXTEND, "", round(self._member.visibility_s * 1000), is_quiet=True
            )
            waiting = {(each.deliveries, each.at): each for each in tuple(self.messages)}
            for frame in {self.acknowledger.add(*place, said) for place in waiting}:
                await frame.done()
                for place, error in frame.failures.items():
                    if isinstance(error, ReceiptError) and place in waiting:
                        with suppress(ValueError):  # somebody else has it, or the program took it
                            self.messages.remove(waiting[place])

    # --- Membership ------------------------------------------------------------------------------

    def _assigned(self) -> None:
        """Give back what waits here of partitions that are somebody else's now."""
        assignment = self._member.assignment
        others = [m for m in self.messages if (m.topic, m.partition) not in assignment]
        for message in others:
            self.messages.remove(message)
        self._give_back(others)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self._member.heartbeat_s)
            try:
                await self._member.stay()
            except (UnknownMemberError, FencedMemberEpochError):
                with suppress(GoQueueError):  # the next heartbeat tries again
                    await self._rejoin()
            except GoQueueError as error:
                _log.info("a heartbeat in group %s failed: %s", self._join.group, error)

    async def _rejoin(self) -> None:
        """Join again; what waits here unseen is returned, in case it is somebody else's now."""
        self._give_back(self.messages)
        async with self._joining:
            try:
                await self._member.join()
            except GoQueueError as error:
                if not error.retriable:
                    self._give_up(error)
                raise

    def _give_up(self, error: GoQueueError) -> None:
        """The group refuses."""
        self._failure = error
        self.acknowledger.fail_all(error)
        self._news.set()

    # --- Fetching --------------------------------------------------------------------------------

    async def _fetch_forever(self) -> None:
        failures = 0
        while self._failure is None and not self.is_draining:
            await self._wait_for_room()
            if self.is_draining:
                return
            try:
                await self._fetch()
                failures = 0
            except GoQueueError as error:
                failures += 1
                _log.info("group %s is joined again in a moment: %s", self._join.group, error)
                is_fenced = isinstance(error, UnknownMemberError | FencedMemberEpochError)
                if not is_fenced and not error.retriable:
                    self._give_up(error)
                    return
                await asyncio.sleep(self._link.settings.backoff_s(failures))
                with suppress(GoQueueError):
                    await self._rejoin()

    async def _wait_for_room(self) -> None:
        while not self.is_draining and not self._holding.is_roomy(len(self.messages)):
            self._room.clear()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._room.wait()
            except TimeoutError:
                self._holding.expire(asyncio.get_running_loop().time())

    async def _fetch(self) -> None:
        """Ask for as much as there is room for, and say what became of what came before."""
        frames = self.acknowledger.next_frames() if self.acknowledger.has_work else []
        wait_ms = 0 if frames else _WAIT_MS  # who acknowledges may be waiting for that
        try:
            answer = await self._ask(
                ApiKey.SHARE_FETCH,
                frames,
                lane=self._lane,
                wait_s=wait_ms / 1000,
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=_MAX_BYTES,
                max_records=self._holding.room,
                batch_size=self._holding.room,
                share_acquire_mode=_NEVER_MORE,
                forgotten_topics_data=[],
                with_receipts=True,
                visibility_ms=self._join.visibility_ms,
            )
        except BaseException:
            self.acknowledger.lost(frames)
            raise
        self.acknowledger.answered(frames, results_of(answer))
        await self._take(answer)

    async def _ask(self, api: ApiKey, frames: list[Frame], **fields: Any) -> Struct:
        """Send settlements, and what else the request says."""
        answer = await self._link.ask_coordinator(
            GROUP_KEY,
            self._join.group,
            api,
            _VERSION,
            group_id=self._join.group,
            member_id=self._join.member_id,
            share_session_epoch=0,
            is_renew_ack=False,
            topics=settlements_of(frames),
            **fields,
        )
        if answer.error_code:
            raise error_named(answer.error_name, answer.error_message, answer.error_code)
        return answer

    async def _take(self, answer: Struct) -> None:
        """Put what came where the program finds it, the most urgent first."""
        names = self._link.metadata.names
        if any(topic.topic_id not in names for topic in answer.responses):
            await self._link.topics(self._join.topics)
        until_s = asyncio.get_running_loop().time() + self._member.visibility_s
        found, broken = received(answer, names, self._owner, self._kind, until_s)
        for deliveries, messages in found:
            self._holding.took(deliveries)
            self.messages.extend(messages)
        for deliveries, said in broken:
            self._holding.took(deliveries)
            for at in range(deliveries.left):
                self.acknowledger.add(deliveries, at, said)
        if found:
            self._news.set()

    # --- Acknowledging ---------------------------------------------------------------------------

    async def _acknowledge_forever(self) -> None:
        failures = 0
        while True:
            if not self.acknowledger.has_work:
                self._idle.append(asyncio.get_running_loop().create_future())
                await self._idle[-1]
                continue
            frames = self.acknowledger.next_frames()
            try:
                answer = await self._ask(ApiKey.SHARE_ACKNOWLEDGE, frames, lane=_ACK_LANE)
            except GoQueueError as error:
                if not error.retriable:
                    self.acknowledger.refused(frames, error)
                    continue
                self.acknowledger.lost(frames)
                failures += 1
                if isinstance(error, BrokerUnavailableError):
                    _log.info("acknowledgements are sent again: %s", error)
                await asyncio.sleep(self._link.settings.backoff_s(failures))
            except BaseException:
                self.acknowledger.lost(frames)
                raise
            else:
                failures = 0
                self.acknowledger.answered(frames, results_of(answer))

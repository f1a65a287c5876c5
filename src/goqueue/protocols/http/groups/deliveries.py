"""Poll and acknowledge: messages delivered to a member of a group, and what it says of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.groups.polling.member import Member
from goqueue.model.errors import AuthorizationFailedError, GoQueueError, ReceiptError
from goqueue.model.limits import MAX_VISIBILITY_MS
from goqueue.model.topic_partition import numbers_by_topic
from goqueue.protocols.audit_trail import record_refused_receipts
from goqueue.protocols.http.api.codecs import duration_ms
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import GroupPath
from goqueue.protocols.http.api.places import LOCAL, group
from goqueue.protocols.http.api.problems import kind_of
from goqueue.protocols.http.api.rights import (
    GROUP_READ,
    READ,
    TOPIC_READ,
    all_of,
    on_group,
    within,
)
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.topic_maps import by_partition
from goqueue.protocols.http.groups.ack_shapes import (
    AckBatchBody,
    AckBody,
    Acknowledging,
    BatchSettled,
    NackBatchBody,
    NackBody,
    RejectBatchBody,
    RejectBody,
    Settled,
    SettleResult,
    VisibilityBatchBody,
    VisibilityBody,
)
from goqueue.protocols.http.groups.member_shapes import PollAnswer, PollQuery
from goqueue.protocols.http.groups.members import find_member
from goqueue.protocols.http.limits import MAX_POLL_MS, MAX_READ_BYTES
from goqueue.protocols.http.messages.decoding import decoded_by_schema
from goqueue.protocols.http.messages.message_shapes import (
    PolledMessage,
    delivered_message,
    polled_message,
)
from goqueue.protocols.permissions import Permissions
from goqueue.queues.acknowledging import Shower
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.members import QueueMember
from goqueue.queues.views import committable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.queues.acquired_batch import Delivery
    from goqueue.reading.stored_messages import StoredMessage

_BODY_BYTES: Final = 4 * 1024 * 1024
_TAG: Final = "acknowledgement"
_OK: Final = 200
_STEP_MS: Final = 500
"""How long a poll waits before it sends a heartbeat, and takes over what was assigned to it."""


_ACKNOWLEDGED: Final = all_of(
    on_group(READ, "body.group"),
    within(GROUP_READ, note="without `group`, that of each receipt"),
    within(TOPIC_READ, note="each that a receipt names"),
)


class DeliveryRoutes(BrokerRoutes):
    """Delivery to members of groups, and acknowledgements."""

    # --- Getting messages ------------------------------------------------------------------------

    @route(
        "GET",
        "/groups/{group}/poll",
        right=all_of(on_group(READ), within(TOPIC_READ, note="each that the member reads")),
        tag="groups",
        polls=True,
        waits="query.timeout",
        place=group(),
    )
    async def poll(self, path: GroupPath, query: PollQuery, may: Permissions) -> PollAnswer:
        """Poll messages, waiting for the first; counts as a heartbeat.

        In a queue group a message is invisible to other members until `visible_until`: acknowledge
        it with its `receipt_handle`, or commit `next_offsets`, which acknowledges everything that
        was delivered to this member up to there. In a log group each poll continues where the last
        one ended.
        """
        timeout_ms = duration_ms(query.timeout, "timeout", at_most_ms=MAX_POLL_MS)
        member = find_member(self._broker, path.group, query)
        if not may.is_open:
            self._check_topics(may, member)
        if isinstance(member, QueueMember):
            return await self._poll_queue(may, member, query, timeout_ms)
        if query.visibility is not None:
            raise _only_of("queue", "visibility")
        return await self._poll_log(may, member, query, timeout_ms)

    def _check_topics(self, may: Permissions, member: QueueMember | Member) -> None:
        """A member that has lost a right since it joined gets nothing more."""
        topics = (
            {each.topic for each in member.assigned}
            if isinstance(member, Member)
            else (self._broker.queue_members.topics_of(member))
        )
        for name in topics:
            may.require(TOPIC_READ, name)

    async def _poll_queue(
        self, may: Permissions, member: QueueMember, query: PollQuery, timeout_ms: int
    ) -> PollAnswer:
        if query.rewind:
            raise _only_of("log", "rewind")
        found = await self._broker.deliverer.poll(
            member,
            limit=query.limit,
            max_wait_ms=timeout_ms,
            visibility_ms=_visibility_ms(query),
            max_bytes=MAX_READ_BYTES,
        )
        _check_messages(may, found)
        force = query.encoding == "base64"
        group = self._broker.queues.group(member.group_id)
        mine = set(self._broker.queue_members.partitions_of(member))
        offsets = committable(self._broker.queues, group, member.member_id)
        return PollAnswer(
            member.epoch,
            await self._decoded(
                may, query, found, [delivered_message(each, force_base64=force) for each in found]
            ),
            by_partition((each.id, offset) for each, offset in offsets if each.id in mine),
            numbers_by_topic(mine),
        )

    async def _poll_log(
        self, may: Permissions, member: Member, query: PollQuery, timeout_ms: int
    ) -> PollAnswer:
        if query.rewind:
            member.positions.clear()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            left_ms = max(round((deadline_s - loop.time()) * 1000), 0)
            polled = await self._broker.memberships.poll(
                member,
                limit=query.limit,
                max_wait_ms=min(left_ms, _STEP_MS),
                max_bytes=MAX_READ_BYTES,
            )
            if polled.messages or not left_ms:
                break
        _check_messages(may, polled.messages)
        force = query.encoding == "base64"
        return PollAnswer(
            member.epoch,
            await self._decoded(
                may,
                query,
                polled.messages,
                [polled_message(each, force_base64=force) for each in polled.messages],
            ),
            by_partition(polled.next_offsets.items()),
            numbers_by_topic(member.assigned),
        )

    async def _decoded(
        self,
        may: Permissions,
        query: PollQuery,
        found: Sequence[StoredMessage | Delivery],
        shown: list[PolledMessage],
    ) -> list[PolledMessage]:
        """The same with values decoded by the registry, where that is asked for."""
        if query.decode == "none":
            return shown
        return await decoded_by_schema(self._broker.schemas, may, found, shown)

    # --- Acknowledging them -----------------------------------------------------------------------

    @route("POST", "/messages/ack", right=_ACKNOWLEDGED, tag=_TAG, place=LOCAL)
    async def ack(self, body: AckBody, may: Permissions) -> Settled:
        """Acknowledge a message: it is not delivered in this group again."""
        return await self._one(may, body, body.receipt_handle)

    @route("POST", "/messages/nack", right=_ACKNOWLEDGED, tag=_TAG, place=LOCAL)
    async def nack(self, body: NackBody, may: Permissions) -> Settled:
        """Return a message, to be redelivered after its back-off.

        The back-off grows with every delivery; after `max_deliveries` it is dead-lettered.
        """
        return await self._one(may, body, body.receipt_handle)

    @route("POST", "/messages/reject", right=_ACKNOWLEDGED, tag=_TAG, place=LOCAL)
    async def reject(self, body: RejectBody, may: Permissions) -> Settled:
        """Move a message to the dead-letter queue, for a reason."""
        return await self._one(may, body, body.receipt_handle)

    @route("POST", "/messages/visibility", right=_ACKNOWLEDGED, tag=_TAG, place=LOCAL)
    async def extend(self, body: VisibilityBody, may: Permissions) -> Settled:
        """Extend the visibility timeout of a message, counted from now; 0 returns it at once."""
        return await self._one(may, body, body.receipt_handle)

    @route(
        "POST",
        "/messages/ack/batch",
        right=_ACKNOWLEDGED,
        tag=_TAG,
        max_body_bytes=_BODY_BYTES,
        place=LOCAL,
    )
    async def ack_batch(self, body: AckBatchBody, may: Permissions) -> BatchSettled:
        """Acknowledge many messages. The response is 200 even if some receipts are refused."""
        return await self._many(may, body, body.receipt_handles)

    @route(
        "POST",
        "/messages/nack/batch",
        right=_ACKNOWLEDGED,
        tag=_TAG,
        max_body_bytes=_BODY_BYTES,
        place=LOCAL,
    )
    async def nack_batch(self, body: NackBatchBody, may: Permissions) -> BatchSettled:
        """Return many messages. The response is 200 even if some receipts are refused."""
        return await self._many(may, body, body.receipt_handles)

    @route(
        "POST",
        "/messages/reject/batch",
        right=_ACKNOWLEDGED,
        tag=_TAG,
        max_body_bytes=_BODY_BYTES,
        place=LOCAL,
    )
    async def reject_batch(self, body: RejectBatchBody, may: Permissions) -> BatchSettled:
        """Move many messages to the dead-letter queue.

        The response is 200 even if some receipts are refused.
        """
        return await self._many(may, body, body.receipt_handles)

    @route(
        "POST",
        "/messages/visibility/batch",
        right=_ACKNOWLEDGED,
        tag=_TAG,
        max_body_bytes=_BODY_BYTES,
        place=LOCAL,
    )
    async def extend_batch(self, body: VisibilityBatchBody, may: Permissions) -> BatchSettled:
        """Extend many visibility timeouts; 200 even if some receipts are refused."""
        return await self._many(may, body, body.receipt_handles)

    async def _one(self, may: Permissions, body: Acknowledging, handle: str) -> Settled:
        acknowledgement = body.acknowledgement()
        receipt = Receipt.parse(handle)
        may.require(TOPIC_READ, receipt.topic)
        (error,) = await self._broker.acknowledger.settle(
            [receipt], acknowledgement, group_id=body.group, shower=_shower(may, body)
        )
        if error is not None:
            raise error
        return Settled(handle, acknowledgement.verdict, self._visible_until(acknowledgement))

    async def _many(
        self, may: Permissions, body: Acknowledging, handles: list[str]
    ) -> BatchSettled:
        acknowledgement = body.acknowledgement()
        outcomes = [_parsed(may, handle) for handle in handles]
        receipts = [each for each in outcomes if isinstance(each, Receipt)]
        errors = iter(
            await self._broker.acknowledger.settle(
                receipts, acknowledgement, group_id=body.group, shower=_shower(may, body)
            )
        )
        told = [
            (handle, next(errors) if isinstance(each, Receipt) else each)
            for handle, each in zip(handles, outcomes, strict=True)
        ]
        record_refused_receipts(self._broker.access_trail, may, told)
        results = [_result(*each) for each in told]
        return BatchSettled(
            acknowledgement.verdict,
            sum(each.status == _OK for each in results),
            results,
            self._visible_until(acknowledgement),
        )

    def _visible_until(self, acknowledgement: Acknowledgement) -> int | None:
        if acknowledgement.verdict is not Verdict.EXTEND or acknowledgement.delay_ms is None:
            return None
        return self._broker.clock.now_ms() + acknowledgement.delay_ms


def _check_messages(may: Permissions, found: Sequence[StoredMessage | Delivery]) -> None:
    """Refuse messages of topics that the client may not read any more, after it has waited."""
    for topic in {each.topic for each in found}:
        may.require(TOPIC_READ, topic)


def _shower(may: Permissions, body: Acknowledging) -> Shower | None:
    """Whose right on the groups of receipts is asked for: no group is named, which would be."""
    is_asked = body.group is not None or may.is_open
    return None if is_asked else Shower(may.principal, may.host)


def _parsed(may: Permissions, handle: str) -> Receipt | GoQueueError:
    """A receipt that the client may show, or why it may not."""
    try:
        receipt = Receipt.parse(handle)
        may.require(TOPIC_READ, receipt.topic)
    except (ReceiptError, AuthorizationFailedError) as error:
        return error
    return receipt


def _result(handle: str, error: GoQueueError | None) -> SettleResult:
    if error is None:
        return SettleResult(handle, _OK)
    status, code, _ = kind_of(error)
    return SettleResult(handle, status, code, str(error), type(error).__name__)


def _visibility_ms(query: PollQuery) -> int | None:
    if query.visibility is None:
        return None
    found = duration_ms(query.visibility, "visibility", at_most_ms=MAX_VISIBILITY_MS)
    if not found:
        raise FieldError(
            "visibility is 0, expected at least 1 ms",
            field="visibility",
            location="query",
            expected="at least 1 ms",
        )
    return found


def _only_of(kind: str, field: str) -> FieldError:
    return FieldError(
        f"{field} is of {kind} groups, which this is not",
        field=field,
        location="query",
        expected="nothing",
    )

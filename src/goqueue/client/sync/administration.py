"""Topics, groups, offsets, transactions and receipts, for programs without asyncio."""

from __future__ import annotations

from goqueue.client.administration import (
    AsyncGroups,
    AsyncOffsets,
    AsyncReceipts,
    AsyncTopics,
    AsyncTransactions,
)
from goqueue.client.sync.blocking import Blocking, blocking


class Topics(Blocking[AsyncTopics]):
    """`client.topics`."""

    create = blocking(AsyncTopics.create)
    list = blocking(AsyncTopics.list)
    describe = blocking(AsyncTopics.describe)
    configure = blocking(AsyncTopics.configure)
    grow = blocking(AsyncTopics.grow)
    delete = blocking(AsyncTopics.delete)


class Groups(Blocking[AsyncGroups]):
    """`client.groups`."""

    list = blocking(AsyncGroups.list)
    describe = blocking(AsyncGroups.describe)
    delete = blocking(AsyncGroups.delete)


class Offsets(Blocking[AsyncOffsets]):
    """`client.offsets`: of groups whose members are elsewhere, or gone."""

    fetch = blocking(AsyncOffsets.fetch)
    commit = blocking(AsyncOffsets.commit)
    reset = blocking(AsyncOffsets.reset)


class Transactions(Blocking[AsyncTransactions]):
    """`client.transactions`: what an administrator sees."""

    list = blocking(AsyncTransactions.list)
    describe = blocking(AsyncTransactions.describe)
    abort = blocking(AsyncTransactions.abort)


class Receipts(Blocking[AsyncReceipts]):
    """`client.receipts`: whoever has a receipt may acknowledge its message.

    All of them raise `UnknownReceiptError` for a receipt that was used or never given, and
    `ExpiredReceiptError` for one whose visibility timeout is over.
    """

    ack = blocking(AsyncReceipts.ack)
    nack = blocking(AsyncReceipts.nack)
    reject = blocking(AsyncReceipts.reject)
    extend = blocking(AsyncReceipts.extend)
    ack_all = blocking(AsyncReceipts.ack_all)

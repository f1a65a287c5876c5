"""The families of administration, derived from the async ones."""

from __future__ import annotations

from goqueue.client.administration.cluster import AsyncCluster
from goqueue.client.administration.dead_letters import AsyncDeadLetters
from goqueue.client.administration.delayed import AsyncDelayed
from goqueue.client.administration.groups import AsyncGroups, AsyncOffsets
from goqueue.client.administration.queues import AsyncQueues
from goqueue.client.administration.receipts import AsyncReceipts
from goqueue.client.administration.schemas import AsyncSchemas
from goqueue.client.administration.topics import AsyncTopics
from goqueue.client.administration.traces import AsyncTraces
from goqueue.client.administration.transactions import AsyncTransactions
from goqueue.client.sync.blocking import Blocking, blocking


class Cluster(Blocking[AsyncCluster]):
    """`client.cluster`."""

    nodes = blocking(AsyncCluster.nodes)
    health = blocking(AsyncCluster.health)
    readiness = blocking(AsyncCluster.readiness)
    stats = blocking(AsyncCluster.stats)
    version = blocking(AsyncCluster.version)
    metrics = blocking(AsyncCluster.metrics)
    maintenance = blocking(AsyncCluster.maintenance)
    resume_maintenance = blocking(AsyncCluster.resume_maintenance)
    pipelines = blocking(AsyncCluster.pipelines)
    remove_pipeline = blocking(AsyncCluster.remove_pipeline)


class DeadLetters(Blocking[AsyncDeadLetters]):
    """`client.dead_letters`."""

    queues = blocking(AsyncDeadLetters.queues)
    list = blocking(AsyncDeadLetters.list)
    count = blocking(AsyncDeadLetters.count)
    get = blocking(AsyncDeadLetters.get)
    redrive = blocking(AsyncDeadLetters.redrive)
    redrives = blocking(AsyncDeadLetters.redrives)
    progress = blocking(AsyncDeadLetters.progress)
    wait = blocking(AsyncDeadLetters.wait)
    cancel = blocking(AsyncDeadLetters.cancel)
    purge = blocking(AsyncDeadLetters.purge)


class Delayed(Blocking[AsyncDelayed]):
    """`client.delayed`."""

    list = blocking(AsyncDelayed.list)
    get = blocking(AsyncDelayed.get)
    cancel = blocking(AsyncDelayed.cancel)
    stats = blocking(AsyncDelayed.stats)
    timeline = blocking(AsyncDelayed.timeline)


class Groups(Blocking[AsyncGroups]):
    """`client.groups`."""

    list = blocking(AsyncGroups.list)
    describe = blocking(AsyncGroups.describe)
    delete = blocking(AsyncGroups.delete)
    rebalances = blocking(AsyncGroups.rebalances)


class Offsets(Blocking[AsyncOffsets]):
    """`client.offsets`: of groups whose members are elsewhere, or gone."""

    fetch = blocking(AsyncOffsets.fetch)
    commit = blocking(AsyncOffsets.commit)
    reset = blocking(AsyncOffsets.reset)


class Queues(Blocking[AsyncQueues]):
    """`client.queues`."""

    list = blocking(AsyncQueues.list)
    describe = blocking(AsyncQueues.describe)
    members = blocking(AsyncQueues.members)
    settings = blocking(AsyncQueues.settings)
    configure = blocking(AsyncQueues.configure)
    stats = blocking(AsyncQueues.stats)
    lanes = blocking(AsyncQueues.lanes)


class Receipts(Blocking[AsyncReceipts]):
    """`client.receipts`: whoever has a receipt may acknowledge its message.

    All of them raise `UnknownReceiptError` for a receipt that was used, was never given or expired
    before a restart of the broker, and `ExpiredReceiptError` for one whose time is over.
    """

    ack = blocking(AsyncReceipts.ack)
    nack = blocking(AsyncReceipts.nack)
    reject = blocking(AsyncReceipts.reject)
    extend = blocking(AsyncReceipts.extend)
    ack_all = blocking(AsyncReceipts.ack_all)


class Schemas(Blocking[AsyncSchemas]):
    """`client.schemas`."""

    subjects = blocking(AsyncSchemas.subjects)
    versions = blocking(AsyncSchemas.versions)
    get = blocking(AsyncSchemas.get)
    by_id = blocking(AsyncSchemas.by_id)
    register = blocking(AsyncSchemas.register)
    look_up = blocking(AsyncSchemas.look_up)
    check = blocking(AsyncSchemas.check)
    delete = blocking(AsyncSchemas.delete)
    delete_version = blocking(AsyncSchemas.delete_version)
    level = blocking(AsyncSchemas.level)
    set_level = blocking(AsyncSchemas.set_level)
    clear_level = blocking(AsyncSchemas.clear_level)
    mode = blocking(AsyncSchemas.mode)
    set_mode = blocking(AsyncSchemas.set_mode)
    clear_mode = blocking(AsyncSchemas.clear_mode)
    stats = blocking(AsyncSchemas.stats)


class Topics(Blocking[AsyncTopics]):
    """`client.topics`."""

    create = blocking(AsyncTopics.create)
    list = blocking(AsyncTopics.list)
    describe = blocking(AsyncTopics.describe)
    settings = blocking(AsyncTopics.settings)
    configure = blocking(AsyncTopics.configure)
    grow = blocking(AsyncTopics.grow)
    delete = blocking(AsyncTopics.delete)
    purge = blocking(AsyncTopics.purge)
    compact = blocking(AsyncTopics.compact)


class Traces(Blocking[AsyncTraces]):
    """`client.traces`."""

    message = blocking(AsyncTraces.message)
    key = blocking(AsyncTraces.key)
    get = blocking(AsyncTraces.get)
    recent = blocking(AsyncTraces.recent)
    search = blocking(AsyncTraces.search)
    stats = blocking(AsyncTraces.stats)


class Transactions(Blocking[AsyncTransactions]):
    """`client.transactions`: what an administrator sees."""

    list = blocking(AsyncTransactions.list)
    describe = blocking(AsyncTransactions.describe)
    abort = blocking(AsyncTransactions.abort)
    stats = blocking(AsyncTransactions.stats)

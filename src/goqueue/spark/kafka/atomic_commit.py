"""The driver's word: the transactions of a batch end together, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.client.link.link import TRANSACTION_KEY
from goqueue.spark.errors import BrokerRefusedError
from goqueue.spark.kafka.producing import Producer, check_transaction_code
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.spark.kafka.cluster import Cluster


def check_support(cluster: Cluster) -> None:
    """Raise `BrokerRefusedError` where the broker cannot commit transactions together."""
    connection = cluster.retry("asking what the broker can do", cluster.link.to_any)
    if ApiKey.COMMIT_TOGETHER not in connection.versions:
        raise BrokerRefusedError(
            f"{cluster.link} cannot commit transactions together: it is no GoQueue, "
            "or an older one. With guarantee=at-least-once any broker will do"
        )


def commit_atomically(
    cluster: Cluster, series: str, number: int, members: Sequence[Producer], keep_ms: int
) -> bool:
    """Commit a batch; False when it was committed before. Asks until there is an answer.

    Raises:
        TransactionLostError: a task's transaction is not there any more; nothing was committed.
        SparkSourceError: the broker is unavailable, or refuses.
    """
    return cluster.retry(
        f"committing batch {number} of {series}",
        lambda: _ask(cluster, series, number, members, keep_ms, committed=True),
    )


def abort_atomically(
    cluster: Cluster, series: str, number: int, members: Sequence[Producer]
) -> None:
    """Abort a batch, with one try: what is not aborted now is by its timeout."""
    cluster.once(lambda: _ask(cluster, series, number, members, 1, committed=False))


async def _ask(
    cluster: Cluster,
    series: str,
    number: int,
    members: Sequence[Producer],
    keep_ms: int,
    *,
    committed: bool,
) -> bool:
    answer = await cluster.link.ask_coordinator(
        TRANSACTION_KEY,
        series,
        ApiKey.COMMIT_TOGETHER,
        0,
        series=series,
        number=number,
        committed=committed,
        keep_ms=keep_ms,
        members=[
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.producer_id,
                "producer_epoch": each.epoch,
            }
            for each in members
        ],
    )
    if answer.error_code == ErrorCode.invalid_request:
        raise BrokerRefusedError(
            f"batch {number} of {series}: the broker does not take {len(members)} tasks with rows "
            "in one batch. Coalesce the rows into fewer partitions before they are written"
        )
    check_transaction_code(answer.error_code, f"batch {number} of {series}")
    return bool(answer.is_new)

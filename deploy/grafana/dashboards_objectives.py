"""What was promised, and what transactions and traces tell."""
# ruff: noqa: INP001 - scripts beside what they write, not a package

from __future__ import annotations

from typing import Any, Final

from panels import GREEN, RED, YELLOW, Dashboard, Panel, Query, Row
from queries import NODE, NODES, percentiles, rate

_FAULTS: Final = f'{NODE},error_type=~"Disk.*|Log.*|Corrupt.*|.*UnavailableError|InvariantError"'
"""Errors that are the broker's fault; the same as in the rules."""
_ALLOWED: Final = "(1 - $target / 100)"
_FAILED: Final = (
    f"(sum(increase(goqueue_broker_messages_failed_total{{{_FAULTS}}}[$__range])) or vector(0))"
)
_TAKEN: Final = (
    f"(sum(increase(goqueue_broker_messages_published_total{{{NODE}}}[$__range])) or vector(0))"
)
_SUCCESS: Final = f"{_TAKEN} / ({_TAKEN} + {_FAILED})"

_TARGET: Final[dict[str, Any]] = {
    "name": "target",
    "label": "Target in percent",
    "type": "custom",
    "query": "99, 99.5, 99.9, 99.95, 99.99",
    "current": {"text": "99.9", "value": "99.9"},
    "options": [
        {"text": value, "value": value, "selected": value == "99.9"}
        for value in ("99", "99.5", "99.9", "99.95", "99.99")
    ],
    "hide": 0,
    "multi": False,
    "includeAll": False,
}
_TEMPO: Final[dict[str, Any]] = {
    "name": "tempo",
    "label": "Traces",
    "type": "datasource",
    "query": "tempo",
    "refresh": 1,
    "hide": 0,
    "includeAll": False,
    "multi": False,
}


def _burns(kind: str, allowed: str) -> list[Query]:
    return [
        Query(f"max(node:goqueue_publish_{kind}:ratio_rate{window}{{{NODE}}}) / {allowed}", window)
        for window in ("5m", "30m", "1h", "6h")
    ]


OBJECTIVES: Final = Dashboard(
    uid="goqueue-slo",
    title="GoQueue: objectives",
    description="Whether messages are taken, and how fast; how much of what may go wrong is left.",
    choices=[NODES],
    variables=[_TARGET],
    rows=[
        Row(
            "In the time that is shown",
            [
                Panel(
                    "Taken",
                    "Messages that were taken, among those that were not their producer's fault.",
                    [Query(_SUCCESS, instant=True)],
                    unit="percentunit",
                    kind="gauge",
                    steps=[(None, RED), (0.99, YELLOW), (0.999, GREEN)],
                    low=0.98,
                    high=1,
                    decimals=3,
                ),
                Panel(
                    "Error budget left",
                    "Of the errors that the target allows in this time; below zero it is missed.",
                    [Query(f"1 - (1 - {_SUCCESS}) / {_ALLOWED}", instant=True)],
                    unit="percentunit",
                    kind="stat",
                    steps=[(None, RED), (0, YELLOW), (0.25, GREEN)],
                ),
                Panel(
                    "p99 publish",
                    "99 of 100 publishes are answered faster; 100 ms are promised.",
                    [
                        Query(
                            "histogram_quantile(0.99, sum by (le) (rate("
                            f"goqueue_broker_publish_latency_seconds_bucket{{{NODE}}}[$__range])))",
                            instant=True,
                        )
                    ],
                    unit="s",
                    kind="stat",
                    steps=[(None, GREEN), (0.05, YELLOW), (0.1, RED)],
                ),
                Panel(
                    "Within 100 ms",
                    "Share of publishes; 99 % are promised.",
                    [
                        Query(
                            "sum(increase(goqueue_broker_publish_latency_seconds_bucket"
                            f'{{{NODE},le="0.1"}}[$__range])) / sum(increase('
                            f"goqueue_broker_publish_latency_seconds_count{{{NODE}}}[$__range]))",
                            instant=True,
                        )
                    ],
                    unit="percentunit",
                    kind="gauge",
                    steps=[(None, RED), (0.99, GREEN)],
                    low=0.9,
                    high=1,
                ),
            ],
        ),
        Row(
            "Burn rates",
            [
                Panel(
                    "Errors",
                    "How many times faster than allowed errors are used up; 14.4 lasts two days.",
                    _burns("faults", _ALLOWED),
                    steps=[(None, GREEN), (2, YELLOW), (14.4, RED)],
                ),
                Panel(
                    "Slow answers",
                    "The same, for publishes of more than 100 ms, of which 1 % is allowed.",
                    _burns("slow", "0.01"),
                    steps=[(None, GREEN), (6, RED)],
                ),
            ],
        ),
        Row(
            "What is behind it",
            [
                Panel(
                    "Publish latency",
                    "From the request to the acknowledgement, durability included.",
                    percentiles("goqueue_broker_publish_latency_seconds", NODE),
                    unit="s",
                    steps=[(None, GREEN), (0.1, RED)],
                ),
                Panel(
                    "Errors of the broker",
                    "Messages a second that were refused through no fault of their producer.",
                    [
                        Query(
                            rate("goqueue_broker_messages_failed_total", _FAULTS, "error_type")
                            + " or vector(0)",
                            "{{error_type}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "Messages left",
                    "The lag of all groups together.",
                    [Query(f"sum by (node_id) (goqueue_consumer_lag{{{NODE}}})", "{{node_id}}")],
                ),
                Panel(
                    "Healthy nodes",
                    "Of those that there are.",
                    [
                        Query(f"max(goqueue_cluster_nodes_healthy{{{NODE}}})", "healthy"),
                        Query(f"max(goqueue_cluster_nodes_total{{{NODE}}})", "all"),
                    ],
                ),
            ],
        ),
    ],
)

TRANSACTIONS: Final = Dashboard(
    uid="goqueue-transactions",
    title="GoQueue: transactions and traces",
    description="Transactions, schemas, and the newest traces where there is a Tempo.",
    choices=[NODES],
    variables=[_TEMPO],
    rows=[
        Row(
            "Transactions in the time that is shown",
            [
                Panel(
                    "Begun",
                    "By producers.",
                    [
                        Query(
                            "sum(increase("
                            f"goqueue_broker_transactions_started_total{{{NODE}}}[$__range]))",
                            instant=True,
                        )
                    ],
                    kind="stat",
                    decimals=0,
                    height=5,
                ),
                Panel(
                    "Committed",
                    "Their messages count.",
                    [
                        Query(
                            "sum(increase("
                            f"goqueue_broker_transactions_committed_total{{{NODE}}}[$__range]))",
                            instant=True,
                        )
                    ],
                    kind="stat",
                    decimals=0,
                    height=5,
                ),
                Panel(
                    "Aborted",
                    "By their producers, or by the broker because they took too long.",
                    [
                        Query(
                            "sum(increase("
                            f"goqueue_broker_transactions_aborted_total{{{NODE}}}[$__range]))",
                            instant=True,
                        )
                    ],
                    kind="stat",
                    decimals=0,
                    height=5,
                ),
                Panel(
                    "Share that is committed",
                    "Of those that have ended.",
                    [
                        Query(
                            "sum(increase(goqueue_broker_transactions_committed_total"
                            f"{{{NODE}}}[$__range])) / (sum(increase("
                            f"goqueue_broker_transactions_committed_total{{{NODE}}}[$__range])) "
                            "+ sum(increase(goqueue_broker_transactions_aborted_total"
                            f"{{{NODE}}}[$__range])))",
                            instant=True,
                        )
                    ],
                    unit="percentunit",
                    kind="gauge",
                    steps=[(None, RED), (0.9, YELLOW), (0.99, GREEN)],
                    low=0,
                    high=1,
                    height=5,
                ),
            ],
        ),
        Row(
            "Transactions",
            [
                Panel(
                    "Transactions a second",
                    "Begun, committed, aborted.",
                    [
                        Query(rate("goqueue_broker_transactions_started_total", NODE), "begun"),
                        Query(
                            rate("goqueue_broker_transactions_committed_total", NODE), "committed"
                        ),
                        Query(rate("goqueue_broker_transactions_aborted_total", NODE), "aborted"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "From the beginning to the end",
                    "To the last marker; most of it is the producer's own time.",
                    percentiles("goqueue_broker_transaction_latency_seconds", NODE),
                    unit="s",
                ),
            ],
        ),
        Row(
            "Schemas",
            [
                Panel(
                    "Messages held against a schema",
                    "A second, by topic and result.",
                    [
                        Query(
                            rate("goqueue_broker_schema_validations_total", NODE, "topic, result"),
                            "{{topic}}: {{result}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "How long that takes",
                    "For a batch.",
                    percentiles("goqueue_broker_schema_validation_latency_seconds", NODE),
                    unit="s",
                ),
            ],
        ),
        Row(
            "Traces",
            [
                Panel(
                    "Newest traces",
                    "Of a Tempo that traces are exported to; `goqueue trace list` needs none.",
                    [Query('{resource.service.name="goqueue"}')],
                    kind="table",
                    height=10,
                    datasource={"type": "tempo", "uid": "${tempo}"},
                )
            ],
        ),
    ],
)

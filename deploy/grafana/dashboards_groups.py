"""Who reads: consumer groups and work queues."""
# ruff: noqa: INP001 - scripts beside what they write, not a package

from __future__ import annotations

from typing import Final

from panels import GREEN, RED, YELLOW, Dashboard, Panel, Query, Row
from queries import (
    BOTH,
    GROUP,
    GROUP_IDS,
    NODE,
    NODES,
    TOPIC,
    TOPICS,
    percentile,
    percentiles,
    rate,
)

GROUPS: Final = Dashboard(
    uid="goqueue-groups",
    title="GoQueue: consumer groups",
    description="Members, what they have left, what they commit, and how often they rebalance.",
    choices=[NODES, GROUP_IDS],
    rows=[
        Row(
            "Now",
            [
                Panel(
                    "Groups by state",
                    "Stable groups work; those that stay in another state do not.",
                    [
                        Query(
                            f"sum by (state) (goqueue_consumer_group_state{{{GROUP}}})", "{{state}}"
                        )
                    ],
                    stacked=True,
                ),
                Panel(
                    "Members",
                    "Of each group.",
                    [
                        Query(
                            f"sum by (consumer_group) (goqueue_consumer_group_members{{{GROUP}}})",
                            "{{consumer_group}}",
                        )
                    ],
                ),
                Panel(
                    "Partitions owned",
                    "By the members of each group.",
                    [
                        Query(
                            "sum by (consumer_group) "
                            f"(goqueue_consumer_assigned_partitions{{{GROUP}}})",
                            "{{consumer_group}}",
                        )
                    ],
                ),
            ],
        ),
        Row(
            "What is left",
            [
                Panel(
                    "Lag",
                    "Messages that the group is not done with.",
                    [
                        Query(
                            f"sum by (consumer_group, topic) (goqueue_consumer_lag{{{GROUP}}})",
                            "{{consumer_group}}: {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Oldest message",
                    "Age of the oldest message that the group is not done with.",
                    [
                        Query(
                            "max by (consumer_group, topic) "
                            f"(goqueue_consumer_oldest_unacked_age_seconds{{{GROUP}}})",
                            "{{consumer_group}}: {{topic}}",
                        )
                    ],
                    unit="s",
                    steps=[(None, GREEN), (3600, RED)],
                ),
                Panel(
                    "Time until nothing is left",
                    "By the rates of the last minute; infinite when the backlog grows.",
                    [
                        Query(
                            "max by (consumer_group, topic) "
                            f"(goqueue_consumer_time_to_drain_seconds{{{GROUP}}})",
                            "{{consumer_group}}: {{topic}}",
                        )
                    ],
                    unit="s",
                ),
            ],
        ),
        Row(
            "Commits",
            [
                Panel(
                    "Messages done a second",
                    "By how committed offsets move.",
                    [
                        Query(
                            "sum by (consumer_group) "
                            f"(deriv(goqueue_consumer_committed_offset{{{GROUP}}}[5m]))",
                            "{{consumer_group}}",
                        )
                    ],
                    unit="cps",
                    low=None,
                ),
                Panel(
                    "Commits a second",
                    "Offsets committed, and refused by the class of the error.",
                    [
                        Query(
                            rate("goqueue_consumer_offset_commits_total", GROUP, "consumer_group"),
                            "{{consumer_group}}",
                        ),
                        Query(
                            rate(
                                "goqueue_consumer_offset_commit_errors_total",
                                GROUP,
                                "consumer_group, error_type",
                            ),
                            "{{consumer_group}}: {{error_type}}",
                        ),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Commit latency",
                    "From the request to the answer.",
                    percentiles("goqueue_consumer_offset_commit_latency_seconds", NODE),
                    unit="s",
                ),
            ],
        ),
        Row(
            "Polls",
            [
                Panel(
                    "Polls a second",
                    "And those that got nothing.",
                    [
                        Query(rate("goqueue_consumer_polls_total", NODE), "polls"),
                        Query(rate("goqueue_consumer_polls_empty_total", NODE), "empty"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Poll latency",
                    "Waiting for messages included.",
                    percentiles("goqueue_consumer_poll_latency_seconds", NODE),
                    unit="s",
                ),
                Panel(
                    "Messages a poll",
                    "Of those that got some.",
                    percentiles("goqueue_consumer_poll_batch_size", NODE),
                ),
            ],
        ),
        Row(
            "Rebalances and heartbeats",
            [
                Panel(
                    "Rebalances in five minutes",
                    "By what set them off; more than five are too many.",
                    [
                        Query(
                            "sum by (consumer_group, trigger) "
                            f"(increase(goqueue_consumer_rebalances_total{{{GROUP}}}[5m]))",
                            "{{consumer_group}}: {{trigger}}",
                        )
                    ],
                    steps=[(None, GREEN), (5, YELLOW)],
                ),
                Panel(
                    "Rebalance latency",
                    "From the trigger to a stable group.",
                    percentiles("goqueue_consumer_rebalance_latency_seconds", NODE),
                    unit="s",
                ),
                Panel(
                    "Members and partitions that moved",
                    "A second: members that joined and left, partitions given and taken.",
                    [
                        Query(rate("goqueue_consumer_group_joins_total", GROUP), "joined"),
                        Query(
                            rate("goqueue_consumer_group_leaves_total", GROUP, "reason"),
                            "left: {{reason}}",
                        ),
                        Query(rate("goqueue_consumer_partitions_assigned_total", GROUP), "given"),
                        Query(rate("goqueue_consumer_partitions_revoked_total", GROUP), "taken"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Heartbeats",
                    "A second, and members dropped because nothing came in time.",
                    [
                        Query(rate("goqueue_consumer_heartbeats_sent_total", GROUP), "heartbeats"),
                        Query(rate("goqueue_consumer_session_timeouts_total", GROUP), "silent"),
                        Query(rate("goqueue_consumer_heartbeat_timeouts_total", GROUP), "late"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Heartbeat latency",
                    "99 of 100 are answered faster.",
                    [Query(percentile("goqueue_consumer_heartbeat_latency_seconds", NODE, 0.99))],
                    unit="s",
                ),
            ],
        ),
        Row(
            "All groups",
            [
                Panel(
                    "Generation",
                    "How often each group has come to a new assignment.",
                    [
                        Query(
                            "max by (consumer_group) "
                            f"(goqueue_consumer_group_generation{{{GROUP}}})"
                        )
                    ],
                    kind="table",
                )
            ],
        ),
    ],
)

QUEUES: Final = Dashboard(
    uid="goqueue-queues",
    title="GoQueue: work queues",
    description="Messages in flight, what becomes of them, dead letters, delays and priorities.",
    choices=[NODES, TOPICS, GROUP_IDS],
    rows=[
        Row(
            "In flight",
            [
                Panel(
                    "With members",
                    "Handed out and not acknowledged.",
                    [
                        Query(
                            "sum by (consumer_group, topic) "
                            f"(goqueue_consumer_messages_in_flight{{{BOTH}}})",
                            "{{consumer_group}}: {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Waiting to be tried again",
                    "Handed back, or not acknowledged in time.",
                    [
                        Query(
                            "sum by (consumer_group, topic) "
                            f"(goqueue_consumer_retries_waiting{{{BOTH}}})",
                            "{{consumer_group}}: {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Handed out a second",
                    "Each delivery counts, also of the same message.",
                    [
                        Query(
                            rate("goqueue_broker_messages_consumed_total", BOTH, "consumer_group"),
                            "{{consumer_group}}",
                        )
                    ],
                    unit="cps",
                ),
            ],
        ),
        Row(
            "What members say",
            [
                Panel(
                    "Verdicts a second",
                    "Processed, to be tried again, refused for good, and heard nothing of.",
                    [
                        Query(rate("goqueue_broker_messages_acked_total", BOTH), "acked"),
                        Query(rate("goqueue_broker_messages_nacked_total", BOTH), "nacked"),
                        Query(rate("goqueue_broker_messages_rejected_total", BOTH), "rejected"),
                        Query(rate("goqueue_broker_visibility_timeouts_total", BOTH), "timed out"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "Share that is processed at once",
                    "Acknowledgements among all that happened to deliveries.",
                    [
                        Query(
                            rate("goqueue_broker_messages_acked_total", BOTH)
                            + " / ("
                            + rate("goqueue_broker_messages_acked_total", BOTH)
                            + " + "
                            + rate("goqueue_broker_messages_nacked_total", BOTH)
                            + " + "
                            + rate("goqueue_broker_visibility_timeouts_total", BOTH)
                            + ")",
                            "processed",
                        )
                    ],
                    unit="percentunit",
                    high=1,
                ),
                Panel(
                    "Ack latency",
                    "From a verdict to its being stored; 99 of 100 are faster.",
                    [
                        Query(
                            percentile(
                                "goqueue_broker_ack_latency_seconds", TOPIC, 0.99, "ack_type"
                            ),
                            "{{ack_type}}",
                        )
                    ],
                    unit="s",
                ),
            ],
        ),
        Row(
            "Dead letters",
            [
                Panel(
                    "Died",
                    "Messages a second put into dead-letter topics, by why.",
                    [
                        Query(
                            rate("goqueue_broker_dead_letters_total", BOTH, "topic, reason"),
                            "{{topic}}: {{reason}}",
                        )
                    ],
                    unit="cps",
                    steps=[(None, GREEN), (0.001, RED)],
                ),
                Panel(
                    "Sent back",
                    "Dead letters a second that were published again.",
                    [
                        Query(
                            rate("goqueue_broker_dead_letters_redriven_total", TOPIC, "topic"),
                            "{{topic}}",
                        )
                    ],
                    unit="cps",
                ),
                Panel(
                    "Expired (TTL)",
                    "Messages a second whose TTL expired before they were delivered.",
                    [
                        Query(
                            rate("goqueue_broker_messages_expired_total", TOPIC, "topic"),
                            "{{topic}}",
                        )
                    ],
                    unit="cps",
                ),
            ],
        ),
        Row(
            "Delays and priorities",
            [
                Panel(
                    "Delayed messages",
                    "That wait until they are due.",
                    [
                        Query(
                            f"sum by (topic) (goqueue_broker_delayed_messages_pending{{{TOPIC}}})",
                            "{{topic}}",
                        )
                    ],
                ),
                Panel(
                    "Delayed messages a second",
                    "Taken in, and appended when they were due.",
                    [
                        Query(
                            rate("goqueue_broker_delayed_messages_scheduled_total", TOPIC),
                            "taken in",
                        ),
                        Query(rate("goqueue_broker_delayed_messages_fired_total", TOPIC), "due"),
                    ],
                    unit="cps",
                ),
                Panel(
                    "By priority",
                    "Messages a second of batches in which somebody names a priority.",
                    [
                        Query(
                            rate(
                                "goqueue_broker_priority_messages_published_total",
                                TOPIC,
                                "priority",
                            ),
                            "{{priority}}",
                        )
                    ],
                    unit="cps",
                    stacked=True,
                ),
            ],
        ),
    ],
)

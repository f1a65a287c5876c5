"""What is asked and answered about the settings of a queue group."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from goqueue.model.errors import InvalidGroupRequestError
from goqueue.model.limits import MAX_DELIVERIES, MAX_LANE_WEIGHT, MAX_VISIBILITY_MS
from goqueue.protocols.http.api.codecs import Duration, duration_ms
from goqueue.protocols.http.api.errors import AtFieldError, FieldError
from goqueue.protocols.http.api.shapes import LANES, doc
from goqueue.protocols.http.limits import MAX_QUEUE_COUNT
from goqueue.queues.delivery.scheduler import Weights
from goqueue.queues.delivery.settings import QueueSettings

EXAMPLE_WEIGHTS: Final = dict(zip(LANES, QueueSettings().weights, strict=True))
DURATIONS: Final = {
    "visibility_timeout": "visibility_ms",
    "backoff": "backoff_ms",
    "max_backoff": "max_backoff_ms",
    "starvation_timeout": "starvation_ms",
}
UNCHANGED: Final = ("max_deliveries", "max_unacked", "max_waiting", "dead_letters")
_Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_LANE_WEIGHT)]
_Lane: TypeAlias = Literal["critical", "high", "normal", "low", "background"]


class SettingsBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The settings of a queue group; omitted ones stay as they are."""

    visibility_timeout: Annotated[
        Duration | None,
        doc(
            "The visibility timeout: an unacknowledged message is redelivered after it; up to 12h.",
            "30s",
        ),
    ] = None
    max_deliveries: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=MAX_DELIVERIES)] | None,
        doc("After this many failed deliveries a message is dead-lettered.", 3),
    ] = None
    backoff: Annotated[
        Duration | None,
        doc("Before the first redelivery of a message that was returned; doubles each time.", "1s"),
    ] = None
    max_backoff: Annotated[Duration | None, doc("Upper bound of the back-off.", "60s")] = None
    max_unacked: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=MAX_QUEUE_COUNT)] | None,
        doc("Unacknowledged messages that a member may hold.", 1000),
    ] = None
    max_waiting: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=MAX_QUEUE_COUNT)] | None,
        doc(
            "How many of a partition may wait for a retry; one more is dead-lettered at once.",
            10_000,
        ),
    ] = None
    weights: Annotated[
        dict[_Lane, _Weight] | list[_Weight] | None,
        doc("The weight of each lane: some by name, or all five in order.", EXAMPLE_WEIGHTS),
    ] = None
    starvation_timeout: Annotated[
        Duration | None,
        doc("A lane that waits this long is served out of turn; 0 disables it.", "30s"),
    ] = None
    dead_letters: Annotated[
        bool | None, doc("Whether dead-lettered messages are stored in `{topic}.dlq`.")
    ] = None

    def given(self) -> list[str]:
        """The settings that the body names."""
        names = (*DURATIONS, *UNCHANGED, "weights")
        return [name for name in names if getattr(self, name) is not None]

    def changes(self, current: QueueSettings) -> dict[str, Any]:
        """What is to be changed of a group's settings.

        Raises:
            FieldError, AtFieldError: a value does not fit.
        """
        found: dict[str, Any] = {}
        for name in self.given():
            value = getattr(self, name)
            if name in DURATIONS:
                value = duration_ms(value, name, at_most_ms=MAX_VISIBILITY_MS, location="body")
                found[DURATIONS[name]] = value
            elif name == "weights":
                found[name] = _weights(value, current)
            else:
                found[name] = value
        if found.get("visibility_ms") == 0:
            raise FieldError(
                "visibility_timeout is 0, expected at least 1 ms",
                field="visibility_timeout",
                expected="at least 1 ms",
            )
        return found


def _weights(value: dict[str, int] | list[int], current: QueueSettings) -> Weights:
    if isinstance(value, dict):
        value = [
            value.get(label, weight) for label, weight in zip(LANES, current.weights, strict=True)
        ]
    try:
        return Weights.of(value)
    except InvalidGroupRequestError as error:
        raise AtFieldError(error, "weights") from error


class SettingsShape(msgspec.Struct):
    """The settings of a queue group; durations are milliseconds."""

    visibility_timeout: Annotated[int, doc("The visibility timeout.", 30_000)]
    max_deliveries: Annotated[
        int, doc("After this many failed deliveries a message is dead-lettered.", 3)
    ]
    backoff: Annotated[int, doc("Before the first retry; doubles each time.", 1000)]
    max_backoff: Annotated[int, doc("Upper bound of the back-off.", 60_000)]
    max_unacked: Annotated[int, doc("Unacknowledged messages that a member may hold.", 1000)]
    max_waiting: Annotated[int, doc("Messages of a partition that may wait for a retry.", 10_000)]
    weights: Annotated[dict[str, int], doc("The weight of each lane.", EXAMPLE_WEIGHTS)]
    starvation_timeout: Annotated[
        int, doc("How long a lane may wait before it is served out of turn.", 30_000)
    ]
    dead_letters: Annotated[
        bool, doc("Whether dead-lettered messages are stored in `{topic}.dlq`.")
    ]


def settings_shape(settings: QueueSettings) -> SettingsShape:
    """A group's settings as JSON shows them; the same can be put again."""
    return SettingsShape(
        **{name: getattr(settings, field) for name, field in DURATIONS.items()},
        **{name: getattr(settings, name) for name in UNCHANGED},
        weights=dict(zip(LANES, settings.weights, strict=True)),
    )


class SettingsAnswer(msgspec.Struct):
    """A queue group's settings."""

    group: str
    mode: Annotated[str, doc("`exclusive` or `shared`.", "exclusive")]
    start: Annotated[
        str,
        doc(
            "Where it began what it had never read: `earliest`, `latest`, `by_duration:PT1H`.",
            "earliest",
        ),
    ]
    settings: SettingsShape

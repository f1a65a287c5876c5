"""What becomes of a message when its task fails."""

from __future__ import annotations

from datetime import timedelta

import pytest

from goqueue.model.limits import MAX_REASON_CHARS
from goqueue.worker.errors import Reject, Retry, TimeLimitExceeded
from goqueue.worker.outcomes import Action, Outcome, RetryRule


def test_an_error_leaves_retries_to_the_group() -> None:
    for count in (1, 2, 100):
        assert RetryRule().after(ValueError("no"), count) == (Action.NACK, "ValueError: no", None)


def test_an_error_without_a_text_is_named() -> None:
    assert RetryRule().after(KeyError(), 1).reason == "KeyError"


def test_a_rejection_is_final_whatever_the_rule_says() -> None:
    rule = RetryRule(max_retries=10, backoff_s=1)
    assert rule.after(Reject("never"), 1) == (Action.REJECT, "never", None)
    assert rule.after(Reject(), 1).reason == "rejected by the task"


def test_errors_that_no_retry_helps_are_final() -> None:
    rule = RetryRule(reject_on=(LookupError,))
    assert rule.after(KeyError("k"), 1).action is Action.REJECT
    assert rule.after(ValueError("v"), 1).action is Action.NACK


@pytest.mark.parametrize(("max_retries", "deliveries"), [(0, 1), (1, 2), (5, 6)])
def test_a_task_is_dead_lettered_after_its_own_number_of_retries(max_retries, deliveries) -> None:
    rule = RetryRule(max_retries=max_retries)
    actions = [rule.after(ValueError(), count).action for count in range(1, deliveries + 2)]
    assert actions == [Action.NACK] * (deliveries - 1) + [Action.REJECT] * 2
    assert rule.after(Retry(), deliveries).action is Action.REJECT
    assert "failed" in rule.after(ValueError("x"), deliveries).reason


def test_the_back_off_doubles_up_to_its_bound() -> None:
    rule = RetryRule(backoff_s=0.5, max_backoff_s=3)
    delays = [rule.after(ValueError(), count).delay_s for count in range(1, 6)]
    assert delays == [0.5, 1, 2, 3, 3]
    assert rule.after(ValueError(), 250).delay_s == 3


def test_the_back_off_never_exceeds_what_the_broker_takes() -> None:
    rule = RetryRule(backoff_s=3600, max_backoff_s=10**9)
    assert rule.after(ValueError(), 200).delay_s == 12 * 3600


def test_a_retry_chooses_its_own_delay() -> None:
    rule = RetryRule(backoff_s=0.5)
    assert rule.after(Retry("later", delay=7), 1) == Outcome(Action.NACK, "later", 7.0)
    assert rule.after(Retry(delay=timedelta(minutes=1)), 1).delay_s == 60
    assert rule.after(Retry(delay=0), 1).delay_s == 0
    assert rule.after(Retry(), 2).delay_s == 1


@pytest.mark.parametrize("delay", [-1, float("nan"), timedelta(hours=13)])
def test_a_retry_at_no_time_is_refused(delay) -> None:
    with pytest.raises(ValueError, match=r"^delay: "):
        Retry(delay=delay)


def test_a_time_limit_is_a_failure_like_others() -> None:
    outcome = RetryRule().after(TimeLimitExceeded("too long"), 1)
    assert outcome == (Action.NACK, "TimeLimitExceeded: too long", None)


def test_a_reason_is_no_longer_than_the_broker_takes() -> None:
    for error in (ValueError("x" * 5000), Reject("x" * 5000), Retry("x" * 5000)):
        assert len(RetryRule().after(error, 1).reason) == MAX_REASON_CHARS

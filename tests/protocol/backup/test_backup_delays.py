"""Delayed messages come along with a backup, whatever was stored of them by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.testing import Broker
    from support.backups import BackupApi
    from support.http_api import HttpApi

WAIT_S = 60
DELAYED = "/topics/jobs/delayed"


def _publish(api: HttpApi, **delays: str) -> None:
    messages = [{"value": value, "delay": delay} for value, delay in delays.items()]
    answer = api.ask("POST", "/topics/jobs/messages", {"messages": messages})
    assert answer.status == 200, answer


def _waiting(api: HttpApi) -> set[str]:
    return {each["value"] for each in api.ask("GET", DELAYED).json["messages"]}


def _check_delivery(target: Broker, api: HttpApi) -> None:
    """The message that is due soon comes once, the other one waits."""
    assert "later" in _waiting(api)
    eventually(lambda: target.messages("jobs"), "the delayed message", WAIT_S)
    assert [m.value for m in target.messages("jobs")] == [b"soon"]
    assert _waiting(api) == {"later"}


def test_delayed_messages_of_which_nothing_was_stored_but_themselves_are_restored(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("jobs", partitions=1)
    made, restored = backups(source), backups(target)
    _publish(made.api, soon="5s", later="1h")
    made.done(made.create())
    restored.done(restored.restore())
    _check_delivery(target, restored.api)


def test_delayed_messages_whose_due_times_are_in_slot_files_are_restored(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("jobs", partitions=1)
    filled = backups(source)
    _publish(filled.api, soon="8s", later="1h")
    source.restart()  # which keeps a snapshot in the log, and slot files beside it
    made, restored = backups(source), backups(target)
    made.done(made.create())
    restored.done(restored.restore())
    _check_delivery(target, restored.api)
    target.restart()
    again = backups(target)
    assert _waiting(again.api) == {"later"}
    assert [m.value for m in target.messages("jobs")] == [b"soon"]


def test_a_restored_broker_takes_delayed_messages(
    source: Broker, target: Broker, backups: Callable[..., BackupApi]
) -> None:
    source.create_topic("jobs", partitions=1)
    made, restored = backups(source), backups(target)
    _publish(made.api, first="1h")
    made.done(made.create())
    restored.done(restored.restore())
    _publish(restored.api, second="1h")
    assert _waiting(restored.api) == {"first", "second"}
    ids = [each["offset"] for each in restored.api.ask("GET", DELAYED).json["messages"]]
    assert restored.api.ask("DELETE", f"{DELAYED}/0/{ids[0]}").status == 200
    assert len(_waiting(restored.api)) == 1

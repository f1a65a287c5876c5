"""When children are started again, and what an etcd that ended had to say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from goqueue.server.errors import StartError
from goqueue.server.supervision.etcd_errors import explain
from goqueue.server.supervision.etcd_folder import EtcdFolder
from goqueue.server.supervision.restarts import LONGEST_DELAY_S, SAME_ERROR_S, SETTLED_S, Restarts

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = {"cluster": "goqueue", "member": "node-1", "peers": ["a:7000", "b:7000", "c:7000"]}


def test_the_delay_doubles_up_to_its_bound_and_begins_again_after_a_long_run() -> None:
    restarts = Restarts()
    delays = [restarts.delay_s(now, now - 1, None) for now in range(1, 9)]
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST_DELAY_S, LONGEST_DELAY_S]
    assert restarts.delay_s(100, 100 - SETTLED_S, None) == 0.2


def test_the_same_error_twice_in_a_short_time_is_the_last() -> None:
    restarts = Restarts()
    assert restarts.delay_s(1, 0, "disk full") is not None
    assert restarts.delay_s(1 + SAME_ERROR_S, 2, "disk full") is None


@pytest.mark.parametrize(
    ("second", "third"),
    [("another", "disk full"), (None, "disk full"), ("another", None)],
)
def test_other_errors_and_none_at_all_are_tried_again(
    second: str | None, third: str | None
) -> None:
    restarts = Restarts()
    assert restarts.delay_s(1, 0, "disk full") is not None
    assert restarts.delay_s(2, 1, second) is not None
    assert restarts.delay_s(3, 2, third) is not None


def test_the_same_error_long_after_is_tried_again() -> None:
    restarts = Restarts()
    assert restarts.delay_s(1, 0, "disk full") is not None
    assert restarts.delay_s(1.1 + SAME_ERROR_S, 2, "disk full") is not None


def line(level: str, message: str, error: str = "") -> str:
    return json.dumps({"level": level, "msg": message, "error": error})


@pytest.mark.parametrize(
    ("message", "error", "told"),
    [
        ("failed to create WAL", "write: no space left on device", "is full"),
        ("the member has been permanently removed from the cluster", "", "was removed"),
        ("server version is lower than determined cluster version", "", "newer version of etcd"),
        ("cluster cannot be downgraded", "", "newer version of etcd"),
        ("failed to validate", "error validating peerURLs", "belongs to another cluster"),
        ("failed to read WAL", "walpb: crc mismatch", "is damaged"),
        ("checkInitialHashKV failed", "data inconsistency", "is damaged"),
        ("discovery failed", "member bcb16f has already been bootstrapped", "has lost what it had"),
        ("tocommit(9) is out of range [lastIndex(0)]", "", "has lost what it had stored"),
        ("discovery failed", "listen tcp: bind: address already in use", "in use by another"),
        ("discovery failed", "open wal: permission denied", "give it the folder"),
        ("something new", "with reasons", "exit code 1 (something new: with reasons)"),
    ],
)
def test_what_an_etcd_ended_with_is_one_sentence_that_says_what_to_do(
    tmp_path: Path, message: str, error: str, told: str
) -> None:
    log = "\n".join(
        [line("info", "no space left on device"), "no JSON", line("fatal", message, error)]
    )
    sentence = explain(EtcdFolder(tmp_path), 1, log, "")
    assert sentence is not None
    assert told in sentence
    assert str(tmp_path) in sentence or "port of etcd" in sentence or "newer" in sentence


def test_a_panic_is_told_on_standard_error(tmp_path: Path) -> None:
    told = explain(EtcdFolder(tmp_path), 2, "", "panic: tocommit(7) is out of range [lastIndex(3)]")
    assert told is not None
    assert "has lost" in told


def test_an_etcd_that_was_killed_or_stopped_has_said_nothing(tmp_path: Path) -> None:
    assert explain(EtcdFolder(tmp_path), -9, line("info", "serving"), "") is None
    assert explain(EtcdFolder(tmp_path), 0, "", "") is None


def test_an_etcd_without_a_word_on_a_full_disk_ended_because_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EtcdFolder, "free_bytes", lambda self: 1000)
    told = explain(EtcdFolder(tmp_path), 1, "", "")
    assert told is not None
    assert "is full" in told


def test_a_folder_of_etcd_is_made_once_and_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        folder = EtcdFolder(tmp_path / "etcd")
        folder.claim(IDENTITY)
    assert folder.data.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("cluster", "other", "the cluster goqueue, and the settings say other"),
        ("member", "node-2", "the node node-1, and the settings say node-2"),
        ("peers", ["a:7000"], "the nodes a:7000, b:7000, c:7000, and the settings say a:7000"),
    ],
)
def test_a_folder_of_another_etcd_is_refused_with_both_named(
    tmp_path: Path, key: str, value: object, told: str
) -> None:
    EtcdFolder(tmp_path / "etcd").claim(IDENTITY)
    with pytest.raises(StartError, match=told):
        EtcdFolder(tmp_path / "etcd").claim(IDENTITY | {key: value})


def test_a_damaged_identity_is_refused(tmp_path: Path) -> None:
    folder = EtcdFolder(tmp_path / "etcd")
    folder.claim(IDENTITY)
    (tmp_path / "etcd" / "member.json").write_text("{")
    with pytest.raises(StartError, match="is damaged"):
        folder.claim(IDENTITY)

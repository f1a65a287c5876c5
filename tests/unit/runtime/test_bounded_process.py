"""A child process with limits: what reaches one fails, and what comes next does not."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.runtime.bounded_process import BoundedProcess, Limits, ProcessLost

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = Limits(cpu_s=0.5, memory_bytes=64 << 20)
NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")


@pytest.fixture
def process() -> Iterator[BoundedProcess]:
    made = BoundedProcess("support.bounded_child", LIMITS)
    yield made
    made.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_requests_are_answered_by_one_child(process: BoundedProcess) -> None:
    assert process.pid is None
    assert process.call(b"x" * 1_000_000) == b"x" * 1_000_000
    assert process.call(b"pid") == process.call(b"pid") == str(process.pid).encode()


def test_a_child_is_asked_however_many_files_are_open(process: BoundedProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this user may not open 2048 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while files.enter_context(Path(os.devnull).open("rb")).fileno() < 1100:
            pass
        assert process.call(b"hello") == b"hello"


def test_a_request_that_takes_too_long_fails_and_the_next_is_answered(
    process: BoundedProcess,
) -> None:
    with pytest.raises(ProcessLost, match=r"more than 0\.5 s of processor time"):
        process.call(b"spin")
    assert process.call(b"hello") == b"hello"


def test_requests_that_go_on_share_their_processor_time(process: BoundedProcess) -> None:
    def work(times: int, *, goes_on: bool) -> None:
        for _ in range(times):
            process.call(b"work1000000", goes_on=goes_on)

    process.call(b"work1")
    with pytest.raises(ProcessLost, match="processor time"):
        work(1000, goes_on=True)
    work(50, goes_on=False)


def test_a_child_that_crashes_fails_the_request_and_the_next_is_answered(
    process: BoundedProcess,
) -> None:
    process.call(b"hello")
    with pytest.raises(ProcessLost, match="SIGSEGV"):
        process.call(b"crash")
    assert process.call(b"hello") == b"hello"


@NEEDS_LINUX
def test_a_request_that_needs_too_much_memory_fails(process: BoundedProcess) -> None:
    with pytest.raises(ProcessLost, match="more than 64 MB of memory"):
        process.call(b"fill")
    assert process.call(b"hello") == b"hello"


@NEEDS_LINUX
def test_what_a_child_has_kept_costs_no_later_request(process: BoundedProcess) -> None:
    pids = set()
    for _ in range(5):
        assert process.call(b"keep") == b"keep"
        pids.add(process.pid)
    assert len(pids) > 1


def test_nothing_is_left_of_a_closed_process(process: BoundedProcess) -> None:
    process.call(b"hello")
    assert process.pid is not None
    pid = process.pid
    process.close()
    assert not is_running(pid)
    with pytest.raises(ProcessLost, match="stopping"):
        process.call(b"hello")


def test_a_process_that_nobody_refers_to_takes_its_child_with_it() -> None:
    process = BoundedProcess("support.bounded_child", LIMITS)
    process.call(b"hello")
    pid = process.pid
    assert pid is not None
    del process
    assert not is_running(pid)

"""A child process for work that a library may never finish, or that may crash it.

Schemas and messages come from strangers, and the native libraries that read them hold the GIL: a
thread beside the event loop would stop it all the same. The child has a limit of processor time for
each request and a limit of memory. At a limit it ends, the request fails, and the next request
starts another child.

    process = BoundedProcess("goqueue.schemas.worker", Limits(cpu_s=2, memory_bytes=256 << 20))
    answer = process.call(request)  # in a thread

The module calls `serve` with what makes an answer of a request. Both are bytes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

WALL_S: Final = 60.0
"""How long an answer is waited for, however little processor time the child is given."""
_LENGTH: Final = struct.Struct("!I")
_MEMORY: Final = Path("/proc/self/statm")
_MAPPED, _RESIDENT = 0, 1
"""Its columns, in pages."""
_BEGINS, _GOES_ON = b"\0", b"\1"
"""What a request begins with."""
_LEAST_S: Final = 0.001
"""What is left at least to a request that goes on: 0 would be without a limit."""
_NICE: Final = 5
"""How far a child stands back where processors are short: the broker's own loop goes first."""
_OUT_OF_MEMORY: Final = 77
"""The exit code of a child that needed more memory than it may have."""


class Limits(NamedTuple):
    """What one request may cost."""

    cpu_s: float
    """Processor time; the child is killed by the kernel when it is used up."""
    memory_bytes: int
    """Address space beyond what the child has when it is ready."""


class ProcessLost(Exception):  # noqa: N818 - whoever calls makes an error of it
    """The child ended before it answered. The text says at which limit."""


class BoundedProcess:
    """One child, started with the first request and again after it was lost."""

    def __init__(self, module: str, limits: Limits) -> None:
        self._module = module
        self._limits = limits
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def call(self, request: bytes, *, goes_on: bool = False) -> bytes:
        """The answer to a request. Blocks; requests of several threads wait for each other.

        One that goes on has what the one before it has left of its processor time.

        A child that answered before and crashes or runs out of memory may have kept too much of
        earlier requests: the request is tried once more with a new one.

        Raises:
            ProcessLost: a limit was reached.
        """
        with self._lock:
            is_new = self._child is None
            try:
                return self._ask(request, goes_on=goes_on)
            except _Crashed:
                if is_new:
                    raise
                return self._ask(request, goes_on=goes_on)

    @property
    def pid(self) -> int | None:
        """Of the child; None when there is none."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """End the child; a request that waits for it fails."""
        self._is_closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._reap()

    def __del__(self) -> None:
        """A child that nobody can ask any more is not left behind."""
        if self._child is not None:
            self._child.kill()
            self._reap()

    def _ask(self, request: bytes, *, goes_on: bool) -> bytes:
        child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(_framed((_GOES_ON if goes_on else _BEGINS) + request))
            child.stdin.flush()
            answers = select.poll()  # not select(), which takes no descriptor above 1023
            answers.register(child.stdout, select.POLLIN)
            if not answers.poll(WALL_S * 1000):
                child.kill()
            answer = read_frame(child.stdout)
        except OSError:
            answer = None
        if answer is None:
            raise self._lost()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise ProcessLost("the broker is stopping")
        limits = f"{self._limits.cpu_s},{self._limits.memory_bytes}"
        self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", self._module, limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a crash is told by whoever asked
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the broker, which then ends its children
        )
        return self._child

    def _lost(self) -> ProcessLost:
        code = self._reap()
        if code == -signal.SIGPROF:
            return ProcessLost(f"it takes more than {self._limits.cpu_s:g} s of processor time")
        if code == _OUT_OF_MEMORY:
            megabytes = self._limits.memory_bytes >> 20
            return _Crashed(f"it takes more than {megabytes} MB of memory")
        if self._is_closed:
            return ProcessLost("the broker is stopping")
        if code == -signal.SIGKILL:
            return ProcessLost(f"it was not done within {WALL_S:g} s")
        return _Crashed(f"the library that reads it crashed ({_named(code)})")

    def _reap(self) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what it was about to be told concerns nobody
                pipe.close()
        try:
            return child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


class _Crashed(ProcessLost):
    """The child ended for a reason that may lie in what it did before."""


def _named(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"


# --- In the child --------------------------------------------------------------------------------


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer requests until there are no more. The limits are the first argument of the command.

    A child that has kept half of the memory that it may have ends, and the next one begins anew.
    """
    cpu_s, memory_bytes = sys.argv[1].split(",")
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that nothing that a library prints gets among the answers
    _limit_memory(int(memory_bytes))
    os.nice(_NICE)
    enough_bytes = _memory_bytes(_RESIDENT) + int(memory_bytes) // 2
    left_s = float(cpu_s)
    while (request := read_frame(requests)) is not None:
        if request[:1] == _BEGINS:
            left_s = float(cpu_s)
        signal.setitimer(signal.ITIMER_PROF, left_s)
        try:
            found = answer(request[1:])
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        left_s = max(signal.setitimer(signal.ITIMER_PROF, 0)[0], _LEAST_S)
        answers.write(_framed(found))
        answers.flush()
        if _memory_bytes(_RESIDENT) > enough_bytes:
            return


def _limit_memory(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used_bytes = _memory_bytes(_MAPPED)
    if used_bytes:
        limit = used_bytes + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _memory_bytes(column: int) -> int:
    """Of this process; 0 where the system does not tell, and no limit is kept then."""
    try:
        return int(_MEMORY.read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _framed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """The next request or answer; None when the other side is gone."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    body = pipe.read(size)
    return body if len(body) == size else None

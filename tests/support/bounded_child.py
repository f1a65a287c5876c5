"""A child of a `BoundedProcess` that does what it is told, whatever that leads to."""

from __future__ import annotations

import os
import signal

from goqueue.runtime.bounded_process import serve

_kept: list[bytearray] = []


def answer(request: bytes) -> bytes:
    """The request again, after what it says was done."""
    if request == b"spin":
        while True:
            pass
    if request == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request == b"fill":
        return b"x" * (1 << 30)
    if request == b"keep":
        _kept.append(bytearray(40 << 20))
    if request == b"pid":
        return str(os.getpid()).encode()
    if request.startswith(b"work"):
        for _ in range(int(request[4:])):
            pass
    return request


if __name__ == "__main__":
    serve(answer)

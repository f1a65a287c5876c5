"""The process that the libraries of the schema languages run in, under limits."""

from __future__ import annotations

from functools import partial

from goqueue.runtime.bounded_process import serve
from goqueue.schemas.engine import LocalEngine
from goqueue.schemas.process import answered

if __name__ == "__main__":
    serve(partial(answered, LocalEngine()))

"""Which codec is in use: the compiled one where it was built, the readable one elsewhere.

`GOQUEUE_CODEC=reference` or `=native` in the environment forces one.
"""

from __future__ import annotations

import importlib
import os
from typing import Final, cast

from goqueue.records import pure
from goqueue.records.checksum import VARIABLE
from goqueue.records.codec import Codec, Implementation
from goqueue.records.section import INTERFACE


def load(name: str) -> Codec:
    """The codec of that name: `reference` or `native`.

    Raises:
        ImportError: the compiled codec was not built, or is stale.
        ValueError: there is no such codec.
    """
    match name:
        case "reference":
            return Codec(name, pure)
        case "native":
            return Codec(name, _import_native())
        case _:
            raise ValueError(f"{VARIABLE}={name}: must be `reference` or `native`")


def choose(wish: str | None) -> Codec:
    """The codec wished for; without a wish the compiled one, if it was built."""
    if wish:
        return load(wish)
    try:
        return load("native")
    except ImportError:
        return load("reference")


def _import_native() -> Implementation:
    """The compiled codec, if it was built, and from the source that belongs to this module."""
    try:
        native = importlib.import_module("goqueue.records._native")
    except ImportError as error:
        raise ImportError(
            "the compiled codec was not built: install with a C compiler, or do without "
            f"{VARIABLE}=native"
        ) from error
    if getattr(native, "INTERFACE", None) != INTERFACE:
        raise ImportError("the compiled codec is of another version: install again")
    return cast("Implementation", native)


CODEC: Final = choose(os.environ.get(VARIABLE))

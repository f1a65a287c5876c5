"""CRC-32C, which batches and files carry: the compiled codec's, or the crc32c package's.

The codec has it where the processor has an instruction for it. Of the package only the compiled
module is loaded: the package itself also loads a command line and looks its own version up on the
disk, which would be a twentieth of a server's start.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

    from crc32c import crc32c

__all__ = ["crc32c"]

VARIABLE: Final = "GOQUEUE_CODEC"
"""In the environment: `reference` or `native` forces one."""

_COMPILED: Final = "crc32c._crc32c"


def _choose() -> ModuleType:
    """What has the function."""
    if os.environ.get(VARIABLE) != "reference":
        with suppress(ImportError):
            native = importlib.import_module("goqueue.records._native")
            if hasattr(native, "crc32c"):
                return native
    return _compiled_package()


def _compiled_package() -> ModuleType:
    """The compiled module of the package, or the whole if it is laid out otherwise."""
    package = PathFinder.find_spec("crc32c")
    path = None if package is None else package.submodule_search_locations
    spec = None if path is None else PathFinder.find_spec(_COMPILED, path)
    if _COMPILED in sys.modules or spec is None or spec.loader is None:
        import crc32c as whole  # noqa: PLC0415 - only where it must be

        return whole
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return sys.modules.setdefault(_COMPILED, module)


if not TYPE_CHECKING:
    crc32c = _choose().crc32c

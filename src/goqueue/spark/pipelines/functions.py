"""Steps that are Python functions: found by where they are, and sent to Spark's workers whole."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.spark.errors import SparkSourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class FunctionError(SparkSourceError):
    """A function that a step names cannot be found."""


def find_function(where: Callable[..., Any] | str, beside: str | None) -> Callable[..., Any]:
    """The function itself, or the one at `module:name` or `file.py:name`.

    Args:
        where: The function or its place.
        beside: The pipeline's file; a path is looked for in its folder.

    Raises:
        FunctionError: there is no such file, module or function, or it cannot be imported.
    """
    if callable(where):
        return where
    home, colon, name = where.rpartition(":")
    if not colon or not home or not name:
        raise FunctionError(f"{where!r} names no function: expected file.py:name or module:name")
    module = _from_file(home, beside) if home.endswith(".py") else _imported(home)
    found = getattr(module, name, None)
    if not callable(found):
        raise FunctionError(f"there is no function {name!r} in {home}")
    function: Callable[..., Any] = found
    return function


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise FunctionError(
            f"module {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def function_file(path: str, beside: str | None) -> Path:
    """The file that a step names, whether it is there or not."""
    folder = Path(beside).resolve().parent if beside else Path.cwd()
    return (folder / path).resolve()


def _from_file(path: str, beside: str | None) -> ModuleType:
    file = function_file(path, beside)
    if not file.is_file():
        raise FunctionError(f"there is no file {file}")
    name = f"goqueue_pipeline_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise FunctionError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise FunctionError(f"{file} cannot be run: {type(error).__name__}: {error}") from error
    _travels_whole(module)
    return module


def _travels_whole(module: ModuleType) -> None:
    """Workers cannot import a file by its path: what its functions use is sent along."""
    from pyspark import cloudpickle  # noqa: PLC0415 - only pipelines that run need Spark

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # Spark's own

"""A pipeline out of a Python file: the file is run, and the pipeline that it has made is taken."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.files.drafting import Draft
from goqueue.spark.pipelines.files.loaded import Loaded
from goqueue.spark.pipelines.model import Problem

if TYPE_CHECKING:
    from types import ModuleType

_MODULE: Final = "__goqueue_pipeline__"
_HOW: Final = 'expected one, as in `pipeline = gp.pipeline("orders")`'


def read_python(file: str) -> Loaded:
    """What a file makes; an error in it is a problem with its line."""
    path = Path(file).absolute()
    try:
        module = _executed(path)
    except SyntaxError as error:
        if error.filename is not None and Path(error.filename).absolute() == path:
            said = f"invalid Python: {error.msg}"
            return Loaded(None, (Problem(said, error.lineno, error.offset),))
        return Loaded(None, (_raised(error, path),))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the file may raise anything
        return Loaded(None, (_raised(error, path),))
    drafts = _drafts(module)
    if not drafts:
        return Loaded(None, (Problem(f"the file makes no pipeline: {_HOW}", 1),))
    if len(drafts) > 1:
        names = ", ".join(drafts)
        return Loaded(None, (Problem(f"the file makes several pipelines ({names}): {_HOW}", 1),))
    (draft,) = drafts.values()
    return draft.load()


def _executed(path: Path) -> ModuleType:
    """The file as a module that nobody can import.

    It is in `sys.modules` only while it runs: what its functions use is then sent to Spark's
    workers by value, who could not import it either.
    """
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    sys.path.insert(0, folder)
    sys.modules[_MODULE] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop(_MODULE, None)
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def _drafts(module: ModuleType) -> dict[str, Draft]:
    """Pipelines at the top level, each once; of several, the one called `pipeline`."""
    found: dict[int, tuple[str, Draft]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Draft):
            found.setdefault(id(value), (name, value))
    drafts = dict(found.values())
    return {"pipeline": drafts["pipeline"]} if "pipeline" in drafts else drafts


def _raised(error: BaseException, path: Path) -> Problem:
    """What an error says, with the line of the file that led to it."""
    lines = [
        each.lineno
        for each in traceback.extract_tb(error.__traceback__)
        if Path(each.filename).absolute() == path
    ]
    said = " ".join(str(error).split())
    text = f"the file raises {type(error).__name__}{f': {said}' if said else ''}"
    return Problem(text, lines[-1] if lines else None)

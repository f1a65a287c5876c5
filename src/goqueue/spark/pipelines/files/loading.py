"""A pipeline from its file, whatever kind of file it is, read and checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.model.limits import MAX_PIPELINE_BYTES
from goqueue.spark.pipelines.files.loaded import Loaded, checked
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.pipelines.model import Pipeline, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


_YAML: Final = (".yaml", ".yml")
_PYTHON: Final = ".py"


def load_file(file: str | Path, environment: Mapping[str, str] | None = None) -> Loaded:
    """What a file says and everything that is wrong with it; never raises.

    Args:
        file: Its name ends in `.yaml`, `.yml` or `.py`.
        environment: Where `${NAME}` comes from; the process's by default.
    """
    suffix = Path(file).suffix.lower()
    if suffix == _PYTHON and Path(file).is_file():
        from goqueue.spark.pipelines.files.python_file import read_python  # noqa: PLC0415 - few need it

        return checked(read_python(str(file)))
    if suffix not in {*_YAML, _PYTHON}:
        said = f"{suffix or 'no suffix'} is no kind of pipeline: expected .yaml, .yml or .py"
        return Loaded(None, (Problem(said),))
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_PIPELINE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Loaded(None, (Problem(f"the file cannot be read: {reason}"),))
    return checked(read_yaml(data, str(file), os.environ if environment is None else environment))


def load_pipeline(file: str | Path, environment: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a file, ready to be run.

    Raises:
        PipelineError: with everything that is wrong with the file.
    """
    return load_file(file, environment).sound_pipeline(str(file))

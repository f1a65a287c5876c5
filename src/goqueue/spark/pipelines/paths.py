"""Paths of a file: relative ones start in its folder, wherever the command is run."""

from __future__ import annotations

import os
import re
from typing import Final

_ELSEWHERE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""`s3a://bucket`, `hdfs:/lake`, `file:///lake`: Spark knows what they are."""


def is_elsewhere(path: str) -> bool:
    """Whether only Spark knows where it is."""
    return _ELSEWHERE.match(path) is not None


def beside(path: str, folder: str) -> str:
    """A path as Spark gets it."""
    if is_elsewhere(path):
        return path
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118 - a Path would swallow `//`, and the text is all we keep

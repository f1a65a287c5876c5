"""What tests of the `goqueue` command share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import yaml

Run: TypeAlias = Callable[..., Any]
"""What the fixture `run` is: a command's words, and the code that it must end with."""


def parsed(output: str, form: str) -> Any:
    """What a program reads out of a command's output."""
    return json.loads(output) if form == "json" else yaml.safe_load(output)

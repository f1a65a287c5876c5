"""For tests that measure their own process: nothing else may run in it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]
_SCRIPT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("measured", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["measured"] = module
spec.loader.exec_module(module)
getattr(module, sys.argv[2])()
"""


def alone(measure: Callable[[], None]) -> None:
    """Run a function of a test module in a fresh interpreter; what it asserts counts here.

    The test runner's own process has threads and caches that allocate whenever they like.
    """
    path = inspect.getsourcefile(measure)
    assert path is not None
    folders = (_ROOT, _ROOT / "tests", Path(path).parent)
    # What measures coverage would count as memory, too.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    search = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, path, measure.__name__],
        env={**environment, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

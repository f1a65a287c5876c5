"""A release: a wheel and a source distribution, built from what git tracks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
BIN: Final = Path(sys.executable).parent
_WITHIN_S: Final = 900


class Released(NamedTuple):
    """The files of a release."""

    wheel: Path
    source: Path


def run_outside(*command: str | Path, cwd: Path = ROOT, **more: str) -> str:
    """What a command prints; it must succeed, and sees nothing of this checkout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GOQUEUE_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment | more,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def build_release(folder: Path) -> Released:
    """Build one from a copy of what git tracks."""
    sources, made, repaired = folder / "sources", folder / "made", folder / "repaired"
    wanted = ("src", "*.md", "LICENSE", "*.toml", "setup.py")
    tracked = run_outside("git", "ls-files", "-z", "--", *wanted)
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, sources / name)
    run_outside(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, cwd=sources)
    if sys.platform == "linux":
        wheel = next(made.glob("*.whl"))
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        run_outside(BIN / "auditwheel", "repair", "-w", repaired, wheel, PATH=path)
    else:
        repaired = made
    return Released(next(repaired.glob("*.whl")), next(made.glob("*.tar.gz")))

"""The compiled codec built with AddressSanitizer, and a fuzzer of its own process around it.

A read or write outside of a buffer ends the process at once, so the input under test is in a file
before it is tried.
"""

# ruff: noqa: T201 - a command prints

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from fuzz.target_records import LIBRARY

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src/goqueue/records"
CURRENT: Final = "GOQUEUE_FUZZ_CURRENT"
"""Names the file that holds the input under test."""
_FLAGS: Final = (
    "-O1", "-g", "-std=c11", "-fno-omit-frame-pointer", "-shared", "-fPIC",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
)  # fmt: skip


def compiler() -> str | None:
    """A compiler that has the sanitizer; None where there is none."""
    found = shutil.which("gcc")
    return found if found is not None and _runtime(found, "libasan.so") is not None else None


def _runtime(gcc: str, name: str) -> str | None:
    asked = [gcc, f"-print-file-name={name}"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return path if Path(path).is_absolute() else None


def build(folder: Path) -> Path:
    """Compile the codec into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "_native.so"
    include = sysconfig.get_path("include")
    sources = sorted(map(str, SOURCES.glob("_native*.c")))
    gcc = compiler() or "gcc"
    subprocess.run([gcc, *_FLAGS, f"-I{include}", *sources, "-o", str(target)], check=True)
    return target


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Run the driver with these arguments on the codec in its sanitized build."""
    gcc = compiler() or "gcc"
    # Exceptions of C++ libraries are only seen by the sanitizer if their runtime is there first.
    runtimes = [_runtime(gcc, "libasan.so"), _runtime(gcc, "libstdc++.so")]
    search = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(search),
        LIBRARY: str(build(folder)),
        CURRENT: str(folder / "current"),
        "LD_PRELOAD": " ".join(filter(None, runtimes)),
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=99",
        "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
        "PYTHONMALLOC": "malloc",  # or the sanitizer sees arenas instead of objects
    }
    return subprocess.Popen([sys.executable, "-m", "fuzz.driver", *arguments], env=environment)


def finish(running: subprocess.Popen[bytes], folder: Path, findings: Path) -> int:
    """Wait for it; returns how many findings there were, and keeps the input that ended it."""
    code = running.wait()
    if code in (0, 1):
        return code
    current = folder / "current"
    kept = findings / f"records-ended-{os.getpid()}"
    shutil.copyfile(current, kept)
    print(f"the process with the codec ended with {code}; kept: {kept}")
    return 1

"""The one compiled corner, built where there is a compiler, and where a package was built from."""

import json
import os
import re
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

RECORDS = "src/goqueue/records"
BUILD_INFO = Path("goqueue", "build_info.json")


def build_info() -> str:
    """The commit and the time, as `goqueue.runtime.build_info` reads them."""
    shipped = Path("src", BUILD_INFO)
    if shipped.exists():  # a source distribution, which has no repository any more
        return shipped.read_text(encoding="utf-8")
    try:
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()  # noqa: S607 - the builder's git
    except (OSError, subprocess.CalledProcessError):
        commit = os.environ.get("GOQUEUE_COMMIT", "unknown")
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(UTC)
    built = now if seconds is None else datetime.fromtimestamp(int(seconds), UTC)
    return json.dumps({"commit": commit, "built": built.strftime("%Y-%m-%dT%H:%M:%SZ")})


def description() -> str:
    """The README with links that also work outside the repository."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = f"{project['urls']['Repository']}/blob/main/"
    text = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?://|#)", f"]({files}", text)


class BuildPython(build_py):
    """Puts `build_info.json` into wheels; a package in development has none."""

    def run(self) -> None:
        """Build, and add the file."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, BUILD_INFO)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(build_info(), encoding="utf-8")


class SourceDistribution(sdist):
    """The same for source distributions."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the sources, and add the file."""
        super().make_release_tree(base_dir, files)
        Path(base_dir, "src", BUILD_INFO).write_text(build_info(), encoding="utf-8")


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    cmdclass={"build_py": BuildPython, "sdist": SourceDistribution},
    ext_modules=[
        Extension(
            "goqueue.records._native",
            sources=[
                f"{RECORDS}/_native.c",
                f"{RECORDS}/_native_builder.c",
                f"{RECORDS}/_native_checksum.c",
                f"{RECORDS}/_native_columns.c",
                f"{RECORDS}/_native_cut.c",
                f"{RECORDS}/_native_encode.c",
                f"{RECORDS}/_native_fetched.c",
                f"{RECORDS}/_native_hash.c",
                f"{RECORDS}/_native_input.c",
                f"{RECORDS}/_native_messages.c",
                f"{RECORDS}/_native_produced.c",
                f"{RECORDS}/_native_row.c",
            ],
            depends=[f"{RECORDS}/_native.h", f"{RECORDS}/_native_wire.h"],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        )
    ],
)

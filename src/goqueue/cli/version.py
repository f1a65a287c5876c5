"""`goqueue version`: what exactly is installed here."""

from __future__ import annotations

import platform

import goqueue
from goqueue.cli.output import Format, FormatOption, emit


def show_version(output: FormatOption = Format.TABLE) -> None:
    """Show the version, the record codec in use, Python and the platform."""
    from goqueue.records import IMPLEMENTATION  # noqa: PLC0415 - start-up stays light

    emit(
        {
            "goqueue": goqueue.__version__,
            "record codec": IMPLEMENTATION,
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        output,
    )

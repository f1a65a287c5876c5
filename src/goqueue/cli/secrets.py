"""Secrets that people type or programs pipe in: never an option, which process lists show."""

from __future__ import annotations

import getpass
import sys

from goqueue.cli.errors import CliError


def ask_secret(what: str, *, twice: bool = False) -> str:
    """A secret from the terminal, unseen; from standard input, its first line.

    Raises:
        CliError: there is none, or the second is another.
    """
    if not sys.stdin.isatty():
        found = sys.stdin.readline().rstrip("\r\n")
    else:
        found = getpass.getpass(f"{what}: ")
        if twice and getpass.getpass(f"{what} again: ") != found:
            raise CliError("nothing was changed: the two were not the same")
    if not found:
        raise CliError(f"nothing was changed: expected a {what.lower()} on standard input")
    return found

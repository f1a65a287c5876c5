"""The secrets that this user and this machine's configuration have."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from goqueue.cli import contexts
from goqueue.cli.debug.redaction import is_secret_name
from goqueue.cli.errors import CliError
from goqueue.server.config import TABLE
from goqueue.server.config_cluster_checks import read_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goqueue.server.config import Config


def known_secrets(environment: Mapping[str, str], config: Config | None) -> Iterator[str]:
    """Each secret as text: of contexts, of the environment, of the configuration."""
    with contextlib.suppress(CliError):
        found = contexts.load(contexts.file_path())
        yield from (each.api_key for each in found.by_name.values() if each.api_key)
    named = {row.environment for row in TABLE if row.secret}
    for name, value in environment.items():
        if value and (name in named or is_secret_name(name)):
            yield value
    if config is not None:
        yield from _of_configuration(config)


def _of_configuration(config: Config) -> Iterator[str]:
    for row in TABLE:
        value = config.value(row) if row.secret else None
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):  # users, each a name with its password
            yield from (str(password) for _, password in value)
    if config.cluster.secret_file is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield read_secret(config.cluster.secret_file).decode()

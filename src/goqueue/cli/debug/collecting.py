"""What a bundle has: what the server answers, and what is found on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.cli import contexts
from goqueue.cli.debug.redaction import MASK
from goqueue.cli.doctor import machine
from goqueue.cli.errors import CliError
from goqueue.cli.output import plain
from goqueue.cli.versions import versions
from goqueue.server.config_docs import effective

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.cli.api import Api
    from goqueue.server.config import Config

_MAX_TOPICS: Final = 500
_MAX_GROUPS: Final = 200
"""The first so many by name are described; the lists have all."""
_MAX_LOG_BYTES: Final = 4 << 20
"""The end of a log; what is before it is left out."""
_LOG_LINES: Final = 5000
_JOURNAL_TIMEOUT_S: Final = 20

_ANSWERS: Final = {
    "version": "/version",
    "health": "/health",
    "readiness": "/readyz?verbose=true",
    "stats": "/stats",
    "overview": "/overview",
    "configuration": "/admin/config",
    "clients": "/cluster/clients",
    "maintenance": "/admin/maintenance",
    "coordinators": "/admin/coordinators",
    "cluster/health": "/cluster/health",
    "cluster/nodes": "/cluster/nodes",
    "cluster/metrics": "/cluster/metrics",
    "cluster/partitions": "/cluster/partitions",
    "groups": "/groups",
    "transactions": "/transactions",
    "delayed": "/delay/stats",
    "deliveries": "/reliability/stats",
    "rebalances": "/rebalance/stats",
    "redrives": "/redrives",
    "pipelines": "/pipelines",
    "schemas": "/schemas/stats",
    "traces": "/traces/stats",
}
"""What is asked of the server, by the name of its file. None has messages, users or keys."""


class Part(NamedTuple):
    """A file of the bundle, or why there is none."""

    name: str
    content: Any
    """Text as it is, everything else as JSON."""
    error: str | None = None


def from_server(api: Api) -> Iterator[Part]:
    """Everything that the server tells of itself."""
    for name, path in _ANSWERS.items():
        part = _asked(api, f"server/{name}.json", path)
        yield part
        if part.error is not None and name == "version":
            return  # it is not there; the same sentence twenty times says no more
    try:
        yield Part("server/metrics.txt", api.text("/metrics"))
    except CliError as error:
        yield Part("server/metrics.txt", None, str(error))
    yield _described(api, "topics", _MAX_TOPICS, "topics", None)
    yield _described(api, "groups", _MAX_GROUPS, "groups", "group")


def _asked(api: Api, name: str, path: str) -> Part:
    try:
        _, answer = api.probe(dict[str, Any], path)
    except CliError as error:
        return Part(name, None, str(error))
    return Part(name, answer)


def _described(api: Api, kind: str, limit: int, field: str, key: str | None) -> Part:
    """Each topic or each group, with its settings and offsets."""
    name = f"server/{kind}-described.json"
    try:
        listed = api.get(dict[str, Any], f"/{kind}")[field]
        names = sorted(each if key is None else each[key] for each in listed)
        found = {each: api.get(dict[str, Any], f"/{kind}/{{}}", each) for each in names[:limit]}
    except CliError as error:
        return Part(name, None, str(error))
    return Part(name, {"count": len(names), "described": found})


def from_machine(config: Config | None, trouble: str | None, log: Path | None) -> Iterator[Part]:
    """Versions, settings, contexts and the log of this machine."""
    yield Part("client/version.json", versions(None)[0])
    yield Part("client/contexts.json", *_contexts())
    mine = {name: value for name, value in os.environ.items() if name.startswith("GOQUEUE_")}
    yield Part("client/environment.json", mine)
    if config is None:
        yield Part("client/configuration.json", None, trouble)
    else:
        rows = {e.setting: {"value": e.value, "source": e.source} for e in effective(config)}
        yield Part("client/configuration.json", rows)
        folder = config.broker.data_dir
        checks = [machine.check_space(folder), machine.check_speed(folder)]
        checks += [machine.check_python(), machine.check_descriptors(), machine.check_etcd()]
        yield Part("client/machine.json", [each._asdict() for each in checks])
    yield _log(log)


def _contexts() -> tuple[Any, str | None]:
    try:
        found = contexts.load(contexts.file_path())
    except CliError as error:
        return None, str(error)
    return plain(contexts.document_of(found, mask=MASK)), None


def _log(path: Path | None) -> Part:
    """The end of the server's log: of a file, or of the journal of systemd."""
    name = "server/log.txt"
    if path is None:
        return _journal(name)
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _MAX_LOG_BYTES, 0))
            return Part(name, file.read(_MAX_LOG_BYTES).decode(errors="replace"))
    except OSError as error:
        return Part(name, None, f"{path}: {error.strerror}")


def _journal(name: str) -> Part:
    missing = "no log: name its file with --log; the server writes it to standard error"
    program = shutil.which("journalctl")
    if program is None:
        return Part(name, None, missing)
    try:
        said = subprocess.run(  # noqa: S603 - fixed words
            [program, "--unit", "goqueue", "--lines", str(_LOG_LINES), "--no-pager"],
            capture_output=True,
            timeout=_JOURNAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return Part(name, None, missing)
    text = said.stdout.decode(errors="replace")
    if said.returncode != 0 or not text.strip() or text.startswith("-- No entries"):
        return Part(name, None, missing)
    return Part(name, text[-_MAX_LOG_BYTES:])

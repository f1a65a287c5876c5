"""A page of the documentation as one bash script, with ports and folders of the test's own."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.doc_pages import commands_of
from support.server import FOR_TESTS, HOST, free_ports

if TYPE_CHECKING:
    from support.doc_pages import Page

NODES: Final = 3
_PREFIXES: Final = ("/etc/goqueue", "/var/lib/goqueue", "/var/backups", "/tmp/", "/lake")
_ELSEWHERE: Final = "kafka.example.com:9092"
"""Another cluster: here the same one."""
_STARTS_SERVER = re.compile(r"^\s*(?:\w+=\S+ )*goqueue server\b", re.MULTILINE)
_STARTS_CLUSTER = re.compile(r"^\s*goqueue cluster start\b", re.MULTILINE)
_ENDLESS = re.compile(r"^\s*goqueue (?:worker|consume .*--follow)\b")
_NEEDS_TERMINAL = re.compile(r"^(\s*goqueue top)\b(?!.*--once)")
_JOB = re.compile(r"\s*(?:&\s*)?(?:#.*)?$")

# What pages call, where it needs more or less than it says.
PRELUDE: Final = r"""
set -eo pipefail
export HOME="$PWD/home" PATH="$BIN:$PATH" PYTHONUNBUFFERED=1 NO_COLOR=1 COLUMNS=160 PS1=
mkdir -p "$HOME/.cache" && touch endless.log
ln -s "$CACHE" "$HOME/.cache/goqueue"  # the etcd of this machine's user
pip() { "$PYTHON" -m ${PIP:-support.doc_pip} "$@"; }
python() { "$PYTHON" "$@"; }
curl() { command curl -sS --fail-with-body "$@"; }
python3() { "$PYTHON" "$@"; }
__listening() {  # wait until the job that was started last serves clients
  for _ in $(seq 1200); do
    if grep -q "ready in " server.log; then kill -0 "$1"; return; fi
    kill -0 "$1" || { cat server.log; echo "the server ended"; return 1; }
    sleep 0.1
  done
  cat server.log; echo "the server is not ready"; return 1
}
__endless() {  # a command that runs until Ctrl-C has to print something, and is then left alone
  local before; before=$(stat -c %s endless.log)
  "$@" >>endless.log 2>&1 &
  for _ in $(seq 600); do
    if [ "$(stat -c %s endless.log)" -gt "$before" ]; then sleep 0.5; kill -0 $!; return; fi
    kill -0 $! || { cat endless.log; echo "ended: $*"; return 1; }
    sleep 0.1
  done
  echo "printed nothing: $*"; return 1
}
__until() {  # run a block again until its output matches
  local out deadline=$((SECONDS + 90))
  while [ $SECONDS -lt $deadline ]; do
    out=$("$2" 2>&1) || true
    if grep -qE -- "$1" <<<"$out"; then echo "$out"; return; fi
    sleep 0.5
  done
  echo "$out"; echo "not printed: $1"; return 1
}
__end() {
  local code=$?
  set +e
  sleep "${LINGER:-0}"
  for job in $(jobs -p); do kill -TERM "$job" 2>/dev/null; done
  for _ in $(seq 200); do [ -z "$(jobs -pr)" ] && break; sleep 0.1; done
  for job in $(jobs -pr); do kill -KILL "$job" 2>/dev/null; done
  [ -d cluster ] && goqueue cluster stop --folder cluster >/dev/null
  cat endless.log
  exit $code
}
trap __end EXIT
"""


@dataclass(frozen=True)
class Ports:
    """Where the brokers of a page listen: as many of each kind as a cluster needs."""

    kafka: int
    http: int
    grpc: int
    internal: int

    def moved(self, text: str) -> str:
        """A text with these in place of the ports that the documentation has."""
        text = text.replace(_ELSEWHERE, f"{HOST}:{self.kafka}")
        for number in range(NODES):
            for old, new in ((9092, self.kafka), (8080, self.http), (9000, self.grpc)):
                text = re.sub(
                    rf"(127\.0\.0\.1|localhost):{old + number}\b", f"{HOST}:{new + number}", text
                )
        return text


def draw_ports() -> Ports:
    """Ports that nobody else has."""
    kafka, http, grpc = (free_ports(NODES)[0] for _ in range(3))
    return Ports(kafka, http, grpc, free_ports(10 * NODES)[0])


def starts_a_broker(page: Page) -> bool:
    """Whether a page runs its own broker; the others are given one."""
    text = "\n".join(commands_of(block) for block in page.blocks if block.is_run)
    return bool(_STARTS_SERVER.search(text) or _STARTS_CLUSTER.search(text))


def script_of(page: Page, folder: Path, ports: Ports) -> str:
    """Write the files of a page into its folder; the script that runs its blocks."""
    parts = [PRELUDE]
    for number, block in enumerate(page.blocks):
        text = _inside(ports.moved(block.text), folder)
        if block.reason:
            continue
        if block.title:
            file = folder / block.title
            source = folder / f".block{number}"
            source.write_text(text)
            parts.append(f"mkdir -p {shlex.quote(str(file.parent))}")
            parts.append(f"cp {shlex.quote(str(source))} {shlex.quote(str(file))}")
        elif block.is_run:
            parts.append(f"printf '\\n==== line {block.line}\\n'")
            if block.language == "python":
                source = folder / f".block{number}.py"
                source.write_text(text)
                parts.append(f'"$PYTHON" -W error {shlex.quote(str(source))}')
            else:
                shell = _inside(ports.moved(commands_of(block)), folder)
                lines = _shell(_joined(shell), ports)
                if block.until:
                    lines = [f"__block{number}() {{", *lines, "}"]
                    lines.append(f"__until {shlex.quote(block.until)} __block{number}")
                parts += lines
    return "\n".join(parts) + "\n"


def environment_of(ports: Ports, python: str = sys.executable) -> dict[str, str]:
    """The settings by which commands and servers of a page find each other.

    Commands are those beside `python`.
    """
    tests = Path(__file__).parents[1]
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GOQUEUE_", "PYTEST_"))
    }
    return {
        **inherited,
        **FOR_TESTS,
        "BIN": str(Path(python).parent),
        "PYTHON": python,
        "CACHE": str(Path.home() / ".cache" / "goqueue"),
        "PYTHONPATH": str(tests),
        "GOQUEUE_SERVER": f"http://{HOST}:{ports.http}",
        "GOQUEUE_ADDRESS": f"{HOST}:{ports.kafka}",
        "GOQUEUE_LISTENERS_KAFKA": f"{HOST}:{ports.kafka}",
        "GOQUEUE_LISTENERS_HTTP": f"{HOST}:{ports.http}",
        "GOQUEUE_LISTENERS_GRPC": f"{HOST}:{ports.grpc}",
    }


def _inside(text: str, folder: Path) -> str:
    """A text whose absolute folders are in the page's own."""
    for prefix in _PREFIXES:
        text = re.sub(rf"(?<![\w/.]){re.escape(prefix)}", f"{folder}{prefix}", text)
    return text


def _joined(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def _shell(lines: list[str], ports: Ports) -> list[str]:
    done = []
    for line in lines:
        if _STARTS_CLUSTER.match(line):
            done.append(
                "env -u GOQUEUE_LISTENERS_KAFKA -u GOQUEUE_LISTENERS_HTTP "
                "-u GOQUEUE_LISTENERS_GRPC "
                f"{_JOB.sub('', line)} --kafka-port {ports.kafka} --http-port {ports.http} "
                f"--grpc-port {ports.grpc} --internal-port {ports.internal}"
            )
        elif _STARTS_SERVER.match(line):
            done += [_JOB.sub("", line) + " >server.log 2>&1 &", "__listening $!"]
        elif _ENDLESS.match(line):
            done.append("__endless " + _JOB.sub("", line))
        else:
            done.append(_NEEDS_TERMINAL.sub(r"\1 --once", line))
    return done

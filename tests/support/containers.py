"""Containers without images: what a manifest says of one, run as a process in namespaces of Linux.

A container has a network address, a hostname, processes and mounts of its own, and sees this
machine's files read-only, with the checkout as the image's `/opt/goqueue`. Needs root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import pytest

from goqueue.server.etcd.binary import find_etcd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = ROOT / "deploy/container/Dockerfile"
IMAGE_USER: Final = 65532
START_S: Final = 180.0
COMMAND_S: Final = 180.0
_TOOLS: Final = ("unshare", "nsenter", "ip", "chroot", "curl")
_INSIDE: Final = ("--mount", "--net", "--uts", "--ipc", "--pid", "--root", "--wd")
_SUBNET: Final = "10.231.7"
_NEEDED: Final = tuple(
    Path(place).resolve() for place in (ROOT, sys.prefix, sys.base_prefix, sys.executable)
)

needs_namespaces = pytest.mark.skipif(
    sys.platform != "linux"
    or os.geteuid() != 0
    or any(shutil.which(tool) is None for tool in _TOOLS),
    reason=f"containers are made as root, on Linux, with {', '.join(_TOOLS)}",
)


class Container(NamedTuple):
    """What a manifest says."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = {}
    volumes: Mapping[str, Path] = {}
    """Folders and files here, by their place in the container."""
    hostnames: Sequence[str] = ()
    user: int = IMAGE_USER


def image_environment(stage: str = "production") -> dict[str, str]:
    """What the Dockerfile sets for every container."""
    text = DOCKERFILE.read_text().partition(f" AS {stage}\n")[2].partition("\nFROM ")[0]
    return dict(re.findall(r"(\w+)=(\S+?)(?: \\)?$", text, re.MULTILINE))


def image_health_check(stage: str = "production") -> list[str]:
    """The command of its HEALTHCHECK."""
    text = DOCKERFILE.read_text().partition(f" AS {stage}\n")[2].partition("\nFROM ")[0]
    found = re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.MULTILINE)
    assert found is not None
    command: list[str] = json.loads(found[1])
    return command


class Running:
    """A container that was started."""

    def __init__(self, container: Container, address: str, process: subprocess.Popen[str]) -> None:
        self.container = container
        self.address = address
        self.log: list[str] = []
        self._process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.log += (line.rstrip("\n") for line in self._process.stdout)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout_s: float = COMMAND_S) -> int:
        """The exit code, once it has ended."""
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def stop(self) -> int:
        """SIGTERM for its first process, as every runtime does it."""
        return self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9` of all its processes: they end with the first."""
        self._signal(signal.SIGKILL)

    def execute(self, *command: str) -> str:
        """What a command prints inside, as `docker exec` would run it; it must end well."""
        inside = ["nsenter", f"--target={self._first_process()}", *_INSIDE]
        user = str(self.container.user)
        done = subprocess.run(
            [*inside, f"--setuid={user}", f"--setgid={user}", *_started(self.container, command)],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        told = done.stdout + done.stderr
        assert done.returncode == 0, f"{self.container.name}: {command} ended badly:\n{told}"
        return told

    def _first_process(self) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int(children.read_text())

    def _signal(self, number: signal.Signals) -> int:
        os.kill(self._first_process(), number)
        return self.wait()


class ContainerNetwork:
    """Containers that reach each other by name, and nothing else; from `with` to its end."""

    def __init__(self, folder: Path, names: Mapping[str, Sequence[str]]) -> None:
        """Each container of these will have an address, and further names."""
        self._folder = folder
        self._addresses = {name: f"{_SUBNET}.{n}" for n, name in enumerate(names, start=11)}
        hosts = [f"{self._addresses[name]} {name} {' '.join(more)}" for name, more in names.items()]
        self._hosts = "\n".join(["127.0.0.1 localhost", *hosts, ""])
        self._running: list[Running] = []
        self._links = 0

    def __enter__(self) -> Self:
        make = (
            "ip link set lo up && ip link add bridge0 type bridge && ip link set bridge0 up"
            f" && ip address add {_SUBNET}.1/24 dev bridge0 && echo made && exec sleep infinity"
        )
        command = ["unshare", "--net", "--kill-child", "--fork", "sh", "-ec", make]
        self._switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._switch.stdout is not None
        assert self._switch.stdout.readline() == "made\n"
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._running:
            if each.is_running:
                each.kill()
        self._switch.kill()
        self._switch.communicate()

    def start(self, container: Container) -> Running:
        """Start it; returns at once."""
        self._links += 1
        root = self._folder / f"root-{self._links}"
        root.mkdir()
        command = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork"]
        process = subprocess.Popen(
            [*command, "sh", "-euc", self._script(container, root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "unshared\n"
        address = self._addresses.get(container.name, f"{_SUBNET}.{100 + self._links}")
        self._connect(process.pid, address)
        process.stdin.close()
        running = Running(container, address, process)
        self._running.append(running)
        return running

    def run(self, container: Container) -> str:
        """What it prints until it ends, which must be well."""
        running = self.start(container)
        code = running.wait()
        told = "\n".join(running.log)
        assert code == 0, f"{container.name} ended with {code}:\n{told}"
        return told

    def curl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run curl beside the containers, without their names."""
        inside = ["nsenter", f"--net=/proc/{self._switch.pid}/ns/net", "curl", "--silent"]
        return subprocess.run(
            [*inside, *arguments], capture_output=True, text=True, timeout=COMMAND_S, check=False
        )

    def wait_until_answered(self, running: Running, url: str) -> None:
        """Wait for 200 from a container; `url` has a `{}` for its address."""
        deadline = time.monotonic() + START_S
        place = url.format(running.address)
        while self.curl("--insecure", "--fail", "--output", "/dev/null", place).returncode != 0:
            told = "\n".join(running.log[-40:])
            assert running.is_running, f"{running.container.name} has ended:\n{told}"
            assert time.monotonic() < deadline, f"no answer from {place}:\n{told}"
            time.sleep(0.2)

    def _connect(self, pid: int, address: str) -> None:
        inner, outer = f"/proc/{pid}/ns/net", f"/proc/{self._switch.pid}/ns/net"
        link = f"link{self._links}"
        pair = f"ip link add {link} type veth peer name eth0 netns {pid}"
        pair += f"; ip link set {link} master bridge0 up"
        _succeed("nsenter", f"--net={outer}", "sh", "-ec", pair)
        up = f"ip link set lo up; ip address add {address}/24 dev eth0; ip link set eth0 up"
        _succeed("nsenter", f"--net={inner}", "sh", "-ec", up)

    def _script(self, container: Container, root: Path) -> str:
        """Waits for the network, makes the root, and becomes the container's command."""
        user = f"--userspec={container.user}:{container.user}"
        command = ["chroot", user, f"{root}/all", *_started(container, container.command)]
        steps = [
            "echo unshared; read -r _ || :",
            f"hostname {shlex.quote(container.name)}",
            f"mount -t tmpfs tmpfs {root}; cd {root}; mkdir upper work all",
            "mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work all",
            *(f"mount --rbind {place} all{place}" for place in ("/dev", *_other_disks())),
            "mount -t proc proc all/proc",
            *(f"chmod o+x all{place}" for place in _folders_above(*_NEEDED)),
            "mkdir -p all/opt/goqueue/bin",
            f"cp {find_etcd().path} all/opt/goqueue/bin/etcd",
            f"printf %s {shlex.quote(_program())} > all/opt/goqueue/bin/goqueue",
            "chmod 755 all/opt all/opt/goqueue all/opt/goqueue/bin all/opt/goqueue/bin/*",
            f"printf %s {shlex.quote(self._hosts)} > all/etc/hosts",
            *(_mount(source, place) for place, source in container.volumes.items()),
            *(_mount(place, str(place)) for place in _hidden_by(container.volumes)),
            "mount -o remount,ro all",
            f"exec {shlex.join(command)}",
        ]
        return "\n".join(steps)


def _started(container: Container, command: Sequence[str]) -> list[str]:
    """A command with the container's environment and nothing else of ours."""
    given = {**image_environment(), **container.environment}
    return ["env", "-i", *(f"{name}={value}" for name, value in given.items()), *command]


def _program() -> str:
    run = shlex.join([sys.executable, "-m", "goqueue.cli"])
    return f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {run} "$@"\n'


def _mount(source: Path, place: str) -> str:
    make = "mkdir -p" if source.is_dir() else f"mkdir -p all{Path(place).parent}; touch"
    return f"{make} all{place}; mount --bind {source} all{place}"


def _other_disks() -> list[Path]:
    """What an overlay over `/` does not have of the checkout and of Python."""
    disk = Path("/").stat().st_dev
    return [place for place in _NEEDED if place.stat().st_dev != disk]


def _hidden_by(volumes: Iterable[str]) -> list[Path]:
    """What volumes are mounted over: the checkout may be in `/tmp`."""
    return [place for place in _NEEDED if any(place.is_relative_to(each) for each in volumes)]


def _folders_above(*places: Path) -> list[Path]:
    """Which another user must be able to pass; `/` is not among them."""
    return sorted({folder for place in places for folder in place.parents} - {Path("/")})


def _succeed(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMMAND_S)

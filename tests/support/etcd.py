"""Real etcd members on loopback, for tests: one, or three that can be killed and paused.

    with etcd_members(3) as members:
        store = await EtcdMetadataStore.open(members.endpoints, ...)
        members.kill(0)       # kill -9
        members.restart(0)

Their folders are in memory where the machine has such a disk. Without an etcd tests are skipped;
in CI they fail.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from goqueue.server.etcd.binary import EtcdError, etcd_environment, find_etcd
from goqueue.server.etcd.command import EtcdMember, EtcdTls, etcd_command
from support.server import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.server.etcd.binary import EtcdBinary

HOST: Final = "127.0.0.1"
_START_S: Final = 60.0


def need_etcd() -> EtcdBinary:
    """The etcd of this machine; a test without it is skipped, but in CI it fails."""
    try:
        return find_etcd(os.environ.get("GOQUEUE_TEST_ETCD"))
    except EtcdError as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(str(error))
        pytest.skip(str(error))


class EtcdMembers:
    """A cluster of etcd by itself; members are counted from 0."""

    def __init__(self, count: int, folder: Path, tls: EtcdTls | None = None) -> None:
        self._binary = need_etcd()
        self._folder = folder
        self._tls = tls
        scheme = "http" if tls is None else "https"
        names = [f"member-{number}" for number in range(count)]
        self.endpoints = [f"{scheme}://{HOST}:{free_port(self)}" for _ in names]
        self.peers = {name: f"{scheme}://{HOST}:{free_port(self)}" for name in names}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __len__(self) -> int:
        return len(self.endpoints)

    def start(self) -> None:
        """Start all and wait until they have a leader."""
        for number in range(len(self)):
            self.restart(number)
        for number in range(len(self)):
            self.wait_for_leader(number)

    def restart(self, number: int) -> None:
        """Start one that is not running, on the folder that it has."""
        member = EtcdMember(
            name=f"member-{number}",
            data_folder=self._folder / f"member-{number}",
            log_file=self._folder / f"member-{number}.log",
            client_url=self.endpoints[number],
            peers=self.peers,
            token="tests",
            tls=self._tls,
        )
        self._processes[number] = subprocess.Popen(
            etcd_command(self._binary, member),
            env=etcd_environment(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_for_leader(self, number: int) -> None:
        """Return when a member serves and knows its leader."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self._tls is not None or self.leader_seen_by(number) is not None:
                return
            if self._processes[number].poll() is not None:
                break
            time.sleep(0.02)
        log = self._folder / f"member-{number}.log"
        told = log.read_text()[-2000:] if log.exists() else "it wrote no log"
        raise AssertionError(f"etcd member {number} did not come up: {told}")

    def leader_seen_by(self, number: int) -> int | None:
        """The number of the member that leads, as another one sees it."""
        try:
            status = self.ask(number, "/v3/maintenance/status")
            listed = self.ask(number, "/v3/cluster/member/list")["members"]
        except (OSError, http.client.HTTPException, KeyError):
            return None
        leader = [each for each in listed if each["ID"] == status.get("leader", "0")]
        return int(leader[0]["name"].removeprefix("member-")) if leader else None

    def leader(self) -> int:
        """The number of the member that leads now."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            for number, process in self._processes.items():
                if process.poll() is None and (found := self.leader_seen_by(number)) is not None:
                    return found
            time.sleep(0.02)
        raise AssertionError("no member leads")

    def ask(self, number: int, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        """One request, apart from the client under test."""
        address = self.endpoints[number].removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=1)
        try:
            connection.request("POST", path, json.dumps(body or {}))
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()

    def kill(self, number: int) -> None:
        """Kill one member, as `kill -9` does."""
        process = self._processes.pop(number)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def pause(self, number: int) -> None:
        """Stop one member in the middle of whatever it does; returns when no thread runs on."""
        process = self._processes[number]
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)

    def resume(self, number: int) -> None:
        """Let a paused member go on."""
        self._processes[number].send_signal(signal.SIGCONT)

    def heal(self) -> None:
        """Let all run and wait until each knows a leader."""
        for number in range(len(self)):
            if number in self._processes:
                self.resume(number)
            else:
                self.restart(number)
        for number in range(len(self)):
            self.wait_for_leader(number)

    def stop(self) -> None:
        """Kill all."""
        for number in list(self._processes):
            self.kill(number)


@contextmanager
def etcd_members(count: int, tls: EtcdTls | None = None) -> Iterator[EtcdMembers]:
    """So many members in a folder of their own, killed and removed afterwards."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="etcd-", dir=shared if shared.is_dir() else None))
    members = EtcdMembers(count, folder, tls)
    try:
        members.start()
        yield members
    finally:
        members.stop()
        shutil.rmtree(folder, ignore_errors=True)

"""The network between the nodes of a cluster, in a process of its own: cut it, slow it down.

Every node is advertised at ports of this process, which forwards to the ports that it listens on:
TCP, and UDP for pings. Whose connection it is follows from /proc: the process that has the other
end belongs to one of the nodes. So links are cut between pairs of nodes and in one direction, also
those between their etcds, and nobody has to be root.

What is held on a cut TCP link goes on when the link is there again, as a network's own repetition
would have it; a datagram is lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = "127.0.0.1"
STRANGER: Final = 0
"""A node's number for everybody who is none; nothing is ever cut for them."""
_LOOK_S: Final = 0.1
"""How long the list of a node's processes is taken to be true."""
_MAX_HELD_BYTES: Final = 1 << 22
"""Of one direction of one connection; beyond that the sender is not read any more."""


class Route(NamedTuple):
    """A port of a node, and where it listens itself; others find it at `HOST`."""

    node: int
    advertised: int
    listening: int
    is_udp: bool = False
    host: str = HOST


class Network:
    """The process, as a test steers it."""

    def __init__(self, routes: list[Route]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.network", json.dumps(routes)],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def owns(self, node: int, pid: int) -> None:
        """A node's first process, whose descendants are the node's too."""
        self._ask(owner=[node, pid])

    def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Nothing gets from one node to the other, and nothing back unless told `one_way`."""
        self._ask(cut=[[one, other], *([] if one_way else [[other, one]])])

    def slow(self, one: int, other: int, delay_ms: int) -> None:
        """Everything between two nodes takes longer."""
        self._ask(slow=[[one, other, delay_ms], [other, one, delay_ms]])

    def reset(self, one: int, other: int) -> None:
        """Every connection between two nodes is reset."""
        self._ask(reset=[one, other])

    def heal(self) -> None:
        """All links are whole, and what was held goes on."""
        self._ask(heal=True)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ok\n", "the network's process has died"


# --- Inside of it --------------------------------------------------------------------------------


class _State:
    """Which links are cut or slow, and which connections there are."""

    def __init__(self) -> None:
        self.cut: set[tuple[int, int]] = set()
        self.delays_s: dict[tuple[int, int], float] = {}
        self.pids: dict[int, int] = {}
        self._trees: dict[int, set[int]] = {}
        self._owners: dict[int, int] = {}
        """By the inode of a socket: the node that has it."""
        self._looked_s = 0.0
        self.pipes: set[_Pipe] = set()

    def node_of(self, end: tuple[str, int], other: tuple[str, int], kind: str) -> int:
        """Whose socket has a local address, and this one at its other end."""
        inode = _inode(end, other) if kind == "tcp" else _listed_inode(end)
        if inode is None:
            return STRANGER
        if inode not in self._owners:
            self._look()
        return self._owners.get(inode, STRANGER)

    def _look(self) -> None:
        """Find the sockets of all nodes: dear, so those that came meanwhile are found with it."""
        now_s = time.monotonic()
        if now_s - self._looked_s > _LOOK_S or self._trees.keys() != self.pids.keys():
            self._looked_s = now_s
            parents = _parents()
            self._trees = {node: _tree(pid, parents) for node, pid in self.pids.items()}
        self._owners = {}
        for node, pids in self._trees.items():
            for inode in [each for pid in pids for each in _inodes(pid)]:
                self._owners.setdefault(inode, node)

    def handle(self, command: dict[str, Any]) -> None:
        if "owner" in command:
            node, pid = command["owner"]
            self.pids[node] = pid
            self._trees.pop(node, None)
        self.cut |= {(one, other) for one, other in command.get("cut", ())}
        for one, other, delay_ms in command.get("slow", ()):
            self.delays_s[one, other] = delay_ms / 1000
        if "heal" in command:
            self.cut.clear()
            self.delays_s.clear()
        if "reset" in command:
            for pipe in [each for each in self.pipes if set(each.link) == set(command["reset"])]:
                pipe.abort()
        for pipe in list(self.pipes):
            pipe.flush()


class _Pipe(asyncio.Protocol):
    """One direction of a connection: what comes in here goes out at the other end."""

    def __init__(self, state: _State, link: tuple[int, int]) -> None:
        self.link = link
        self._state = state
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._sink: asyncio.Transport | None = None
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._state.pipes.add(self)

    def connect(self, sink: asyncio.Transport) -> None:
        self._sink = sink
        self.flush()

    def data_received(self, data: bytes) -> None:
        delay_s = self._state.delays_s.get(self.link)
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, self._take, data)
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        self.flush()

    def flush(self) -> None:
        if self.link not in self._state.cut and self._sink is not None:
            while self._held:
                self._sink.write(self._held.popleft())
            self._held_bytes = 0
            if self._is_over:
                self._sink.close()
                self._state.pipes.discard(self)
        if self._transport is not None and not self._transport.is_closing():
            if self._held_bytes > _MAX_HELD_BYTES:
                self._transport.pause_reading()
            elif not self._held:
                self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._transport = None
        delay_s = self._state.delays_s.get(self.link, 0.0)
        asyncio.get_running_loop().call_later(delay_s, self.flush)

    def abort(self) -> None:
        for each in (self._transport, self._sink):
            if each is not None:
                each.abort()
        self._state.pipes.discard(self)


async def _serve_tcp(state: _State, route: Route) -> None:
    loop = asyncio.get_running_loop()

    class Accepted(_Pipe):
        """What whoever connects sends."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            ends = [transport.get_extra_info(name) for name in ("peername", "sockname")]
            node = state.node_of(ends[0], ends[1], "tcp")
            self.link = (node, route.node)
            super().connection_made(transport)
            task = loop.create_task(self._dial(node, cast("asyncio.Transport", transport)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        async def _dial(self, node: int, transport: asyncio.Transport) -> None:
            back = _Pipe(state, (route.node, node))
            try:
                sink, _ = await loop.create_connection(lambda: back, route.host, route.listening)
            except OSError:
                self.abort()
                return
            self.connect(sink)
            back.connect(transport)

    tasks: set[asyncio.Task[None]] = set()
    make = lambda: Accepted(state, (STRANGER, route.node))  # noqa: E731 - a factory
    server = await loop.create_server(make, HOST, route.advertised)
    await server.serve_forever()


class _Datagrams(asyncio.DatagramProtocol):
    """Pings to one node; each sender has a socket of its own towards it."""

    def __init__(self, state: _State, route: Route) -> None:
        self._state = state
        self._route = route
        self._transport: asyncio.DatagramTransport | None = None
        self._senders: dict[tuple[str, int], tuple[int, asyncio.DatagramTransport]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        known = self._senders.get(addr)
        if known is None or known[0] == STRANGER:
            task = asyncio.get_running_loop().create_task(self._meet(data, addr))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._send(known[1], data, (known[0], self._route.node))

    async def _meet(self, data: bytes, addr: tuple[str, int]) -> None:
        node = self._state.node_of(addr, ("", 0), "udp")
        outer = self

        class Answers(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, _addr: tuple[str, int]) -> None:
                assert outer._transport is not None
                link = (outer._route.node, node)
                outer._send(outer._transport, data, link, addr)

        loop = asyncio.get_running_loop()
        target = (self._route.host, self._route.listening)
        towards, _ = await loop.create_datagram_endpoint(Answers, remote_addr=target)
        if addr in self._senders:
            self._senders[addr][1].close()
        self._senders[addr] = (node, towards)
        self._send(towards, data, (node, self._route.node))

    def _send(
        self,
        transport: asyncio.DatagramTransport,
        data: bytes,
        link: tuple[int, int],
        addr: tuple[str, int] | None = None,
    ) -> None:
        if link not in self._state.cut:
            delay_s = self._state.delays_s.get(link, 0.0)
            asyncio.get_running_loop().call_later(delay_s, transport.sendto, data, addr)


async def _run(routes: list[Route]) -> None:
    loop = asyncio.get_running_loop()
    state = _State()
    tasks = []
    for route in routes:
        if route.is_udp:
            await loop.create_datagram_endpoint(
                lambda route=route: _Datagrams(state, route),  # type: ignore[misc]
                local_addr=(HOST, route.advertised),
            )
        else:
            tasks.append(asyncio.create_task(_serve_tcp(state, route)))
    await asyncio.sleep(0.05)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    _say_ok()
    while line := await reader.readline():
        state.handle(json.loads(line))
        _say_ok()


def _say_ok() -> None:
    sys.stdout.write("ok\n")
    sys.stdout.flush()


# --- Who is who ----------------------------------------------------------------------------------


_BY_FAMILY: Final = 20
"""SOCK_DIAG_BY_FAMILY: the kernel is asked for one socket, whatever number there is."""
_NETLINK_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBxI")
_ENDS: Final = struct.Struct("!HH16s16s")
_REST: Final = struct.Struct("=III")
_INODE_AT: Final = 16 + 4 + 48 + 4 * 4


def _inode(end: tuple[str, int], other: tuple[str, int]) -> int | None:
    """The inode of the TCP socket between two addresses, the first its own."""
    addresses = [socket.inet_aton(each[0]).ljust(16, b"\0") for each in (end, other)]
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
    request += _ENDS.pack(end[1], other[1], *addresses) + _REST.pack(0, 0xFFFFFFFF, 0xFFFFFFFF)
    header = _NETLINK_HEADER.pack(_NETLINK_HEADER.size + len(request), _BY_FAMILY, 1, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as kernel:
        kernel.send(header + request)
        answer = kernel.recv(4096)
    kind = _NETLINK_HEADER.unpack_from(answer)[1]
    return int.from_bytes(answer[_INODE_AT : _INODE_AT + 4], sys.byteorder) if kind == 20 else None


def _listed_inode(address: tuple[str, int]) -> int | None:
    """The inode of a UDP socket; of one bound to any address, if no other has the port.

    The addresses of /proc are in the byte order of this machine.
    """
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    found: dict[str, int] = {}
    for line in Path("/proc/net/udp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        found.setdefault(fields[1], int(fields[9]))
    return found.get(f"{number:08X}:{port:04X}") or found.get(f"{0:08X}:{port:04X}")


def _parents() -> dict[int, int]:
    """By process: its parent."""
    found = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = each.read_text(errors="replace")
            found[int(each.parent.name)] = int(text.rpartition(")")[2].split()[1])
    return found


def _tree(root: int, parents: dict[int, int]) -> set[int]:
    """A process and everything that it has started."""
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tree


def _inodes(pid: int) -> Iterator[int]:
    """The sockets that a process has open."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for each in os.listdir(folder):  # noqa: PTH208 - once for each file of each process
            with suppress(OSError):
                target = os.readlink(f"{folder}/{each}")  # noqa: PTH115 - the same
                if target.startswith("socket:["):
                    yield int(target[8:-1])


if __name__ == "__main__":
    with suppress(PermissionError):
        os.nice(-10)  # a network has no other work to do
    asyncio.run(_run([Route(*each) for each in json.loads(sys.argv[1])]))

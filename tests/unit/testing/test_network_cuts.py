"""Links between the processes of nodes are cut in pairs and in one direction, by who is who."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from support.network import HOST, Network, Route
from support.server import free_port

SPEAKER = """
import socket, sys, threading
def read(sock):
    try:
        while data := sock.recv(100):
            print(data.decode(), flush=True)
    except ConnectionResetError:
        pass
    print("closed", flush=True)
sys.stdin.readline()
kind = socket.SOCK_DGRAM if sys.argv[1] == "udp" else socket.SOCK_STREAM
sock = socket.socket(socket.AF_INET, kind)
sock.connect(("127.0.0.1", int(sys.argv[2])))
threading.Thread(target=read, args=(sock,), daemon=True).start()
for line in sys.stdin:
    sock.sendall(line.strip().encode())
"""


class Speaker:
    """A process of node 1 that talks to node 2."""

    def __init__(self, kind, port):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SPEAKER, kind, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heard = []
        self.news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.news:
                self.heard.append(line.strip())
                self.news.notify_all()

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hears(self, word, within_s=10.0):
        with self.news:
            return self.news.wait_for(lambda: word in self.heard, within_s)


class Echo:
    """Node 2, in this process: answers with what it hears, and remembers it."""

    def __init__(self, kind, port):
        self.heard = []
        if kind == "udp":
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((HOST, port))
        else:
            self.socket = socket.create_server((HOST, port))
        target = self._datagrams if kind == "udp" else self._connections
        threading.Thread(target=target, daemon=True).start()

    def _datagrams(self):
        with suppress(OSError):
            while True:
                data, sender = self.socket.recvfrom(100)
                self.heard.append(data.decode())
                self.socket.sendto(data, sender)

    def _connections(self):
        with suppress(OSError):
            while True:
                sock, _ = self.socket.accept()
                threading.Thread(target=self._stream, args=(sock,), daemon=True).start()

    def _stream(self, sock):
        with suppress(OSError):
            while data := sock.recv(100):
                self.heard.append(data.decode())
                sock.sendall(data)


@pytest.fixture(params=["tcp", "udp"])
def kind(request):
    return request.param


@pytest.fixture
def talk(kind):
    advertised, listening = free_port(), free_port()
    echo = Echo(kind, listening)
    network = Network([Route(2, advertised, listening, kind == "udp")])
    speaker = Speaker(kind, advertised)
    network.owns(1, speaker.process.pid)
    network.owns(2, os.getpid())
    speaker.say("connect")
    yield network, speaker, echo
    speaker.process.kill()
    speaker.process.communicate()
    network.close()
    echo.socket.close()


def test_a_whole_link_carries_both_ways(talk):
    _, speaker, _ = talk
    speaker.say("one")
    assert speaker.hears("one")


def test_a_cut_link_carries_nothing_until_it_is_healed(talk, kind):
    network, speaker, echo = talk
    network.cut(1, 2)
    speaker.say("one")
    assert not speaker.hears("one", 0.3)
    assert echo.heard == []
    network.heal()
    speaker.say("two") if kind == "udp" else None
    assert speaker.hears("two" if kind == "udp" else "one")


def test_a_link_that_is_cut_one_way_carries_the_other(talk):
    network, speaker, echo = talk
    speaker.say("zero")
    assert speaker.hears("zero")
    network.cut(2, 1, one_way=True)
    speaker.say("one")
    assert not speaker.hears("one", 0.3)
    assert echo.heard == ["zero", "one"]


def test_a_cut_between_others_changes_nothing(talk):
    network, speaker, _ = talk
    network.cut(2, 3)
    network.cut(1, 3)
    speaker.say("one")
    assert speaker.hears("one")


def test_a_slow_link_takes_longer(talk):
    network, speaker, _ = talk
    network.slow(1, 2, 300)
    speaker.say("one")
    assert not speaker.hears("one", 0.3)
    assert speaker.hears("one")


def test_connections_are_reset(talk, kind):
    network, speaker, _ = talk
    speaker.say("one")
    assert speaker.hears("one")
    network.reset(1, 2)
    assert kind == "udp" or speaker.hears("closed")

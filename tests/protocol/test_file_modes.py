"""What a server stores is its user's alone: messages, and the keys of those who log in."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from support.server import make_server, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.server import ServerProcess

__all__ = ["start_server"]

OTHERS = stat.S_IRWXG | stat.S_IRWXO
SASL = {
    "GOQUEUE_SASL_ENABLED": "true",
    "GOQUEUE_SASL_USERS": "alice:secret-of-alice",
}


def open_to_others(folder: Path) -> Iterator[str]:
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if mode & OTHERS:
            yield f"{path.relative_to(folder.parent)} {stat.filemode(mode)}"


def send(server: ServerProcess) -> None:
    producer = Producer(
        {
            "bootstrap.servers": server.kafka_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "secret-of-alice",
        }
    )
    producer.produce("t", b"x", headers={"goqueue-deliver-at": "99999999999999"})
    producer.produce("t", b"y")
    assert producer.flush(60) == 0


def test_nobody_else_can_read_what_a_server_stores(
    tmp_path: Path, start_server: Callable[..., ServerProcess]
) -> None:
    server = start_server(environment=SASL)
    send(server)
    for data in server.data_dirs:
        assert list(open_to_others(data)) == []
    server.stop()
    for data in server.data_dirs:
        assert list(open_to_others(data)) == []


def test_a_folder_that_others_could_read_is_closed_to_them_at_the_start(
    tmp_path: Path, start_server: Callable[..., ServerProcess]
) -> None:
    server = start_server(environment=SASL)
    send(server)
    server.stop()
    data = server.data_dirs[0]
    named = {path.name for path in data.iterdir()}
    for path in (data, *data.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    server.start()
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()} == {0o700, 0o600}
    told = server.wait_for_line("removed the access of other users from")
    assert any(each in told for each in named)


def test_what_is_not_the_servers_is_left_as_it_is(tmp_path: Path) -> None:
    server = make_server(tmp_path / "data", environment=SASL)
    data = server.data_dirs[0]
    data.mkdir(mode=0o755)
    (data / "notes.txt").write_text("mine")
    (data / "notes.txt").chmod(0o644)
    server.start()
    try:
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()}
        assert stat.S_IMODE(data.stat().st_mode) == 0o755
        assert modes.pop("notes.txt") == 0o644
        assert set(modes.values()) <= {0o700, 0o600}
    finally:
        server.close()

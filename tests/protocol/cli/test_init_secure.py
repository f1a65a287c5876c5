"""`goqueue init --secure`: what it makes is started and used as it says, by clients of others."""

from __future__ import annotations

import os
import re
import ssl
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import pytest
import yaml
from confluent_kafka import Consumer, Producer
from cryptography import x509

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.server import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Made(NamedTuple):
    folder: Path
    said: str
    server: ServerProcess

    @property
    def key(self) -> str:
        return (self.folder / "admin.key").read_text().strip()

    @property
    def key_id(self) -> str:
        return re.findall(r"key_[0-9a-f]{16}", self.said)[0]

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server.http_port}"

    def kafka(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"localhost:{self.server.kafka_port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.crt"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": self.key_id,
            "sasl.password": self.key,
            **more,
        }


def goqueue(
    *words: str, said: str | None = None, code: int = 0, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        input=said,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("secure") / "goqueue"
    done = goqueue("init", "--secure", "--folder", str(folder), "--host", "localhost")
    server = ServerProcess(folder / "data", "--config", str(folder / "goqueue.yaml"))
    server.flags = (
        *server.flags,
        f"--listeners-kafka-advertised=localhost:{server.kafka_port}",
    )
    server.start()
    yield Made(folder, done.stdout, server)
    server.close()


def test_secrets_are_shown_once_and_kept_from_others(made: Made) -> None:
    assert made.key in made.said
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    for path in made.folder.iterdir():
        if path.is_file() and path.suffix != ".crt":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for path in (made.folder / "data").rglob("*"):
        if path.is_file():
            assert made.key.encode() not in path.read_bytes(), path
    assert made.key not in (made.folder / "goqueue.yaml").read_text()
    assert not any(made.key in line for line in made.server.log)


def test_a_second_time_changes_nothing(made: Made) -> None:
    before = {path.name: path.read_bytes() for path in made.folder.iterdir() if path.is_file()}
    said = goqueue("init", "--secure", "--folder", str(made.folder), code=1).stderr
    assert "nothing was changed" in said
    assert "--folder" in said
    now = {path.name: path.read_bytes() for path in made.folder.iterdir() if path.is_file()}
    assert now == before
    assert "--secure" in goqueue("init", code=2).stderr


def test_a_kafka_client_publishes_and_consumes(made: Made) -> None:
    producer = Producer(made.kafka())
    producer.produce("by-kafka", b"hello")
    assert producer.flush(60) == 0
    consumer = Consumer(made.kafka(**{"group.id": "readers", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["by-kafka"])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


def test_curl_and_the_command_line_do_what_was_printed(made: Made, tmp_path: Path) -> None:
    authority, header = str(made.folder / "ca.crt"), str(made.folder / "admin.header")
    command = ["curl", "-sSf", "--cacert", authority, f"{made.url}/topics"]
    allowed = subprocess.run([*command, "-H", f"@{header}"], capture_output=True, check=True)
    assert b"topics" in allowed.stdout
    refused = subprocess.run(command, capture_output=True, check=False)
    assert b"401" in refused.stderr
    home = {"HOME": str(tmp_path), "SSL_CERT_FILE": authority}
    goqueue("login", "--server", made.url, said=made.key, environment=home)
    goqueue("topic", "create", "by-command", environment=home)
    assert "by-command" in goqueue("topic", "list", environment=home).stdout


def test_a_grpc_client_is_served(made: Made) -> None:
    trusted = grpc.ssl_channel_credentials((made.folder / "ca.crt").read_bytes())
    with grpc.secure_channel(f"localhost:{made.server.grpc_port}", trusted) as channel:
        admin = services.AdminServiceStub(channel)
        key = (("x-api-key", made.key),)
        admin.CreateTopic(pb.CreateTopicRequest(name="by-grpc"), metadata=key, timeout=60)


def test_the_certificates_are_the_authoritys_and_for_their_hosts(made: Made) -> None:
    context = ssl.create_default_context(cafile=str(made.folder / "ca.crt"))
    assert context.verify_mode is ssl.CERT_REQUIRED
    for name in ("localhost", "127.0.0.1"):
        port = str(made.server.http_port)
        command = ["curl", "-sSf", "--cacert", str(made.folder / "ca.crt")]
        url = f"https://{name}:{port}/healthz"
        subprocess.run([*command, url], capture_output=True, check=True)
    context.load_cert_chain(made.folder / "node.crt", made.folder / "node.key")


def test_the_folder_of_a_cluster_is_made_once_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "goqueue"
    peers = ("--peer", "node-1.example:7000", "--peer", "node-2.example:7000")
    words = ("init", "--secure", "--keep", "--folder", str(folder), *peers)
    said = goqueue(*words).stdout
    key = (folder / "admin.key").read_text()
    assert "key_root" in said
    assert key in said
    config = yaml.safe_load((folder / "goqueue.yaml").read_text())
    assert config["cluster"]["peers"] == ["node-1.example:7000", "node-2.example:7000"]
    assert config["auth"]["root_key"] == key.strip()
    certificate = x509.load_pem_x509_certificate((folder / "node.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "node-2.example" in names.get_values_for_type(x509.DNSName)
    assert "is kept as it is" in goqueue(*words).stdout
    assert (folder / "admin.key").read_text() == key
    told = goqueue(*(word for word in words if word != "--keep"), code=1).stderr
    assert "nothing was changed" in told

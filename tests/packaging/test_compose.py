"""The compose file: what it names is there, and its services run, as processes in namespaces."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support import compose
from support.containers import (
    ROOT,
    Container,
    ContainerNetwork,
    Running,
    image_health_check,
    needs_namespaces,
)
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

NODES = ("node-1", "node-2", "node-3")
AUTHORITY = "/setup/goqueue/ca.crt"
PUBLISH = """
from confluent_kafka import Producer
producer = Producer(settings)
producer.produce("orders", b"hello")
assert producer.flush(60) == 0
print("published")
"""
READ = """
from confluent_kafka import Consumer
consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
message = consumer.poll(120)
print("read:", message and message.value())
consumer.close()
"""


def test_what_services_mount_is_in_the_repository_or_a_volume() -> None:
    folder = compose.FILE.parent
    for name, service in compose.services().items():
        for source, _ in compose.mounts(service):
            assert (folder / source).exists() or "/" not in source, f"{name}: {source}"


def test_no_two_services_have_the_same_port_of_the_host() -> None:
    published = [service.get("ports", []) for service in compose.services().values()]
    ports = [each.split(":")[-2] for listed in published for each in listed]
    assert len(ports) == len(set(ports)) == 12


class Users:
    """Programs on the machine where the services run: its ports are those that they publish."""

    def __init__(self, network: ContainerNetwork, folder: Path, told: str) -> None:
        self._network = network
        self._volumes = {"/setup": folder / "volume-setup", "/tmp": folder / "volume-tmp-setup"}
        self._key = (folder / "volume-setup/goqueue/admin.key").read_text().strip()
        found = re.search(r'"sasl.username": "(.+?)"', told)
        assert found is not None
        self._user = found[1]
        services = compose.services()
        ports = (compose.published_ports(name, services[name]) for name in NODES)
        self._ports = [each for listed in ports for each in listed]

    def _run(self, *command: str) -> str:
        environment = {
            "GOQUEUE_API_KEY": self._key,
            "GOQUEUE_SERVER": "https://localhost:8081",
            "SSL_CERT_FILE": AUTHORITY,
            "HOME": "/tmp",
            "PYTHONPATH": str(ROOT / "tests"),
        }
        words = [sys.executable, "-m", "support.published_ports", *self._ports, "--", *command]
        return self._network.run(Container("client", words, environment, self._volumes))

    def ask(self, *words: str) -> str:
        """Run the command line."""
        return self._run(compose.PROGRAM, *words)

    def tries(self, *words: str) -> bool:
        """Run the command line; whether it succeeded."""
        try:
            self.ask(*words)
        except AssertionError:
            return False
        return True

    def kafka(self, program: str) -> str:
        """Run a program with `settings` for a Kafka client."""
        settings = {
            "bootstrap.servers": "localhost:9092,localhost:9093,localhost:9094",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": AUTHORITY,
            "sasl.mechanism": "PLAIN",
            "sasl.username": self._user,
            "sasl.password": self._key,
        }
        return self._run(sys.executable, "-c", f"settings = {settings}\n{program}")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """With the rules and the authority where the services have them."""
    given = (compose.FILE.parent / "prometheus.yml").read_text()
    (tmp_path / "ca.crt").write_text("")
    config = tmp_path / "prometheus.yml"
    config.write_text(given.replace(AUTHORITY, str(tmp_path / "ca.crt")))
    rules = shutil.copytree(compose.FILE.parents[1] / "prometheus/rules", tmp_path / "rules")
    command = ["promtool", "check", "config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rules found") == len(list(rules.glob("*.yml")))


@needs_namespaces
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_services_are_a_cluster_with_logins_that_goes_on_without_a_node(tmp_path: Path) -> None:
    services = compose.services()
    with ContainerNetwork(tmp_path, dict.fromkeys((*NODES, "client"), ())) as network:
        setup = compose.container("setup", services["setup"], tmp_path)
        told = network.run(setup)
        assert "is kept as it is" in network.run(setup)

        def start(name: str) -> Running:
            return network.start(compose.container(name, services[name], tmp_path))

        running = {name: start(name) for name in NODES}
        for each in running.values():
            network.wait_until_answered(each, "https://{}:8080/readyz")
            assert "ok" in each.execute(*image_health_check())

        users = Users(network, tmp_path, told)
        assert "3 of 3 are active" in users.ask("cluster", "health")
        users.ask("topic", "create", "orders")
        assert "published" in users.kafka(PUBLISH)
        running["node-3"].kill()
        # the metadata store may be electing its leader: then a change may have been made or not
        eventually(lambda: users.tries("topic", "create", "more", "--if-not-exists"))
        assert "more" in users.ask("topic", "list")
        assert running["node-1"].stop() == 0
        running["node-1"] = start("node-1")
        network.wait_until_answered(running["node-1"], "https://{}:8080/readyz")
        assert "read: b'hello'" in users.kafka(READ)

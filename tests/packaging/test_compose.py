"""The compose file: what it names is there, and its services run, as processes in namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import compose
from support.containers import Container, ContainerNetwork, Running, needs_namespaces

if TYPE_CHECKING:
    from pathlib import Path

NODES = ("node-1", "node-2", "node-3")


def test_what_services_mount_is_in_the_repository_or_a_volume() -> None:
    folder = compose.FILE.parent
    for name, service in compose.services().items():
        for source, _ in compose.mounts(service):
            assert (folder / source).exists() or "/" not in source, f"{name}: {source}"


def test_no_two_services_have_the_same_port_of_the_host() -> None:
    published = [service.get("ports", []) for service in compose.services().values()]
    ports = [each.split(":")[-2] for listed in published for each in listed]
    assert len(ports) == len(set(ports)) == 12


@needs_namespaces
@pytest.mark.slow
def test_the_services_are_a_cluster_with_logins_that_goes_on_without_a_node(tmp_path: Path) -> None:
    services = compose.services()
    with ContainerNetwork(tmp_path, dict.fromkeys((*NODES, "client"), ())) as network:
        setup = compose.container("setup", services["setup"], tmp_path)
        network.run(setup)
        assert "is kept as it is" in network.run(setup)

        def start(name: str) -> Running:
            return network.start(compose.container(name, services[name], tmp_path))

        running = {name: start(name) for name in NODES}
        for each in running.values():
            network.wait_until_answered(each, "https://{}:8080/readyz")
        key = (tmp_path / "volume-setup/goqueue/admin.key").read_text().strip()

        def ask(*words: str) -> str:
            environment = {
                "GOQUEUE_API_KEY": key,
                "GOQUEUE_SERVER": "https://node-1:8080",
                "SSL_CERT_FILE": "/setup/goqueue/ca.crt",
                "HOME": "/tmp",
            }
            volumes = {"/setup": tmp_path / "volume-setup", "/tmp": tmp_path / "volume-tmp-setup"}
            command = [compose.PROGRAM, *words]
            return network.run(Container("client", command, environment, volumes))

        assert "3 of 3 are active" in ask("cluster", "health")
        ask("topic", "create", "orders")
        running["node-3"].kill()
        ask("topic", "create", "more")
        assert "more" in ask("topic", "list")
        assert running["node-1"].stop() == 0

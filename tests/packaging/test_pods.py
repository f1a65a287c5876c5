"""The pods of the chart as processes: with their user, command, environment and volumes.

Every pod has a network address and a root of its own, and is asked what its probes ask.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.chart import NAMESPACE, Kubelet, Rendered
from support.containers import ROOT, ContainerNetwork, Running, needs_namespaces

if TYPE_CHECKING:
    from pathlib import Path

DOMAIN: Final = f"{NAMESPACE}.svc.cluster.local"
CLIENT: Final = "client"
LOGIN: Final = {"GOQUEUE_USER": "orders", "GOQUEUE_PASSWORD": "a password of a test"}
PROGRAM: Final = "/opt/goqueue/bin/goqueue"
CURL: Final = (
    f'curl --silent --fail --cacert "$SSL_CERT_FILE" -H "X-API-Key: $GOQUEUE_API_KEY" '
    f"https://goqueue.{DOMAIN}:8080/topics"
)
BACKUPS: Final = {"enabled": True, "destination": "/backup/queue", "existingClaim": "shared"}

pytestmark = needs_namespaces


class Release:
    """A release whose pods run here."""

    def __init__(self, network: ContainerNetwork, kubelet: Kubelet) -> None:
        self.network = network
        self.kubelet = kubelet
        self.pods: dict[int, Running] = {}

    def start(self, *numbers: int) -> None:
        """Start pods at the same time; returns when their probes are answered."""
        for number in numbers:
            self.pods[number] = self.network.start(self.kubelet.node(number))
        workload = self.kubelet.rendered.one("StatefulSet")["spec"]["template"]["spec"]
        container = workload["containers"][0]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = container[probe]["httpGet"]
            url = f"{get['scheme'].lower()}://{{}}:{ports[get['port']]}{get['path']}"
            for number in numbers:
                self.network.wait_until_answered(self.pods[number], url)

    def run(self, *command: str, **environment: str) -> str:
        """Run something in a pod of a client, which has the authority and the root key."""
        manifest = self.kubelet.rendered.one("Pod")["spec"]
        client = self.kubelet.container(CLIENT, manifest, manifest["containers"][0])
        key = self.kubelet.rendered.secret("goqueue-keys", "root-key")
        given = {**client.environment, "GOQUEUE_API_KEY": key, **environment}
        return self.network.run(
            client._replace(command=command or client.command, environment=given)
        )

    def kafka(self, action: str) -> str:
        """Publish or read as a user, over TLS, at the service's name."""
        program = str(ROOT / "tests/support/kafka_login.py")
        where = (f"goqueue.{DOMAIN}:9092", "/etc/goqueue/tls/ca.crt", "orders")
        return self.run(sys.executable, program, action, *where, **LOGIN)


@pytest.fixture
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    values = {"config": {"storage": {"disk_limit_percent": 100}}, **request.param}
    kubelet = Kubelet(Rendered(**values), tmp_path)
    service = [f"goqueue{suffix}" for suffix in ("", f".{NAMESPACE}", f".{DOMAIN}")]
    names = {
        f"goqueue-{number}": [
            f"goqueue-{number}.goqueue-nodes.{DOMAIN}",
            *(service if number == 1 else ()),
        ]
        for number in range(1, request.param["replicas"] + 1)
    }
    with ContainerNetwork(tmp_path, {**names, CLIENT: ()}) as network:
        yield Release(network, kubelet)


@pytest.mark.parametrize("release", [{"replicas": 1}], indirect=True)
def test_one_pod_serves_curl_the_command_line_and_a_kafka_client_and_keeps_its_data(
    release: Release,
) -> None:
    release.start(1)
    assert "ok" in release.run()  # helm test
    release.run(PROGRAM, "topic", "create", "orders")
    make_user(release)
    release.kafka("publish")
    assert '"orders"' in release.run("sh", "-c", CURL)
    release.pods[1].kill()
    release.start(1)
    assert "100 messages" in release.kafka("read")
    assert release.pods[1].stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("release", [{"replicas": 3, "backup": BACKUPS}], indirect=True)
def test_three_pods_are_a_cluster_that_survives_the_death_of_one_and_of_all(
    release: Release,
) -> None:
    release.start(1, 2, 3)
    release.run(PROGRAM, "topic", "create", "orders", "--partitions", "6")
    make_user(release)
    release.kafka("publish")
    release.pods[2].kill()
    assert "100 messages" in release.kafka("read")
    release.start(2)
    assert "3 of 3 are active" in release.run(PROGRAM, "cluster", "health")
    job = release.kubelet.rendered.one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for container in (*job["initContainers"], *job["containers"]):
        release.network.run(release.kubelet.container("backup", job, container))
    listed = release.run(PROGRAM, "backup", "list", "/backup/queue", "--output", "json")
    assert len(json.loads(listed)) == 1
    for pod in release.pods.values():
        pod.kill()
    release.start(1, 2, 3)
    assert "100 messages" in release.kafka("read")


def make_user(release: Release) -> None:
    release.run(
        *("sh", "-c", f'echo "$GOQUEUE_PASSWORD" | {PROGRAM} user create orders --role admin'),
        **LOGIN,
    )

"""The Helm chart: Kubernetes takes what it renders, and rules and dashboards have one source."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any, Final

import kubernetes_validate
import pytest
import yaml

import goqueue
from support.chart import CHART, NAMESPACE, Rendered, helm

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY: Final = CHART.parents[1]
KEY: Final = {"name": "prometheus-key", "key": "api-key"}
EVERYTHING: Final[dict[str, Any]] = {
    "tls": {"extraNames": ["queue.example.org"], "clientAuth": "verify"},
    "storageClass": {
        "create": True,
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
    },
    "ingress": {"http": {"enabled": True, "tlsSecret": "web"}, "grpc": {"enabled": True}},
    "metrics": {
        "apiKeySecret": KEY,
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
        "alertmanager": {"enabled": True},
    },
    "backup": {"enabled": True, "destination": "s3://backups/queue", "credentialsSecret": "aws"},
    "antiAffinity": "preferred",
    "priorityClassName": "important",
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "queues", "operator": "Exists"}],
    "podAnnotations": {"team": "queues"},
    "extraEnv": [{"name": "GOQUEUE_STORAGE_FSYNC", "value": "always"}],
}
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "as it is": {},
    "with everything": EVERYTHING,
    "one node": {"replicas": 1, "zoneSpread": False, "antiAffinity": "none"},
    "behind a mesh": {"tls": {"enabled": False}, "metrics": {"open": True}},
    "with secrets of its user": {"tls": {"existingSecret": "a"}, "auth": {"existingSecret": "b"}},
    "with a backup volume": {
        "backup": {"enabled": True, "destination": "/backup/queue", "existingClaim": "shared"}
    },
}
OPERATORS: Final = ("monitoring.coreos.com/v1", "cert-manager.io/v1")


def oldest_kubernetes() -> str:
    found = re.search(r">=([0-9.]+)", (CHART / "Chart.yaml").read_text())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def with_everything() -> Rendered:
    return Rendered(**EVERYTHING)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_oldest_kubernetes_takes_every_object(variant: str) -> None:
    check(Rendered(**VARIANTS[variant]), oldest_kubernetes())


def test_the_newest_kubernetes_takes_every_object(with_everything: Rendered) -> None:
    check(with_everything, kubernetes_validate.latest_version())


def check(rendered: Rendered, version: str) -> None:
    for each in rendered.objects:
        if each["apiVersion"] not in OPERATORS:
            kubernetes_validate.validate(each, version, strict=True)


def test_every_value_is_in_the_schema_and_others_are_refused() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert sorted(schema["properties"].keys() - {"global"}) == sorted(values)
    refused = helm("template", str(CHART), values={"tls": {"enbaled": True}})
    assert refused.returncode != 0
    assert "enbaled" in refused.stderr
    assert helm("template", str(CHART), values={"replicas": 2}).returncode != 0


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"auth": {"enabled": False}}, "config.listeners.insecure"),
        ({"backup": {"enabled": True}}, "backup.destination is empty"),
        ({"backup": {"enabled": True, "destination": "/backup"}}, "backup.existingClaim"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.apiKeySecret"),
    ],
)
def test_values_that_cannot_work_are_refused_with_what_to_do(
    values: dict[str, Any], told: str
) -> None:
    refused = helm("template", str(CHART), values=values)
    assert refused.returncode != 0
    assert told in refused.stderr


def test_pods_are_numbered_as_their_places_among_the_peers() -> None:
    rendered = Rendered()
    pods = rendered.one("StatefulSet")["spec"]
    assert pods["ordinals"]["start"] == 1
    assert rendered.config()["cluster"]["peers"] == [
        f"goqueue-{number}.{pods['serviceName']}.{NAMESPACE}.svc.cluster.local:7000"
        for number in range(1, pods["replicas"] + 1)
    ]
    assert pods["podManagementPolicy"] == "Parallel"
    assert rendered.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_settings_of_a_user_come_before_those_of_the_chart() -> None:
    config = Rendered(
        config={"storage": {"fsync": "always"}, "logging": {"format": "text"}}
    ).config()
    assert config["storage"] == {"fsync": "always"}
    assert config["logging"] == {"format": "text"}
    assert config["auth"]["enabled"]


def test_rules_dashboards_and_alertmanager_are_those_of_the_deploy_folder(
    with_everything: Rendered,
) -> None:
    rendered = with_everything
    groups = []
    for path in sorted((DEPLOY / "prometheus/rules").glob("*.yml")):
        groups += yaml.safe_load(path.read_text())["groups"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    runbooks = values["metrics"]["prometheusRule"]["runbooks"]
    given = json.dumps(groups).replace("docs/how-to/runbooks.md", runbooks)
    assert rendered.one("PrometheusRule")["spec"]["groups"] == json.loads(given)
    dashboards = rendered.data("ConfigMap", "goqueue-dashboards")
    assert dashboards == {
        path.name: path.read_bytes() for path in (DEPLOY / "grafana/dashboards").glob("*.json")
    }
    template = rendered.secret("goqueue-alertmanager", "goqueue.tmpl")
    assert template == (DEPLOY / "alertmanager/templates/goqueue.tmpl").read_text()


def test_prometheus_scrapes_with_the_authority_and_a_key_of_its_own(
    with_everything: Rendered,
) -> None:
    (endpoint,) = with_everything.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == "goqueue-tls"
    assert endpoint["authorization"]["credentials"] == KEY
    assert {"targetLabel": "job", "replacement": "goqueue"} in endpoint["relabelings"]


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == goqueue.__version__


def test_a_packaged_chart_holds_rules_and_dashboards_as_files_and_renders(tmp_path: Path) -> None:
    """In the repository they are links to folders beside the chart."""
    helm("version")  # which skips the test where there is no helm
    done = subprocess.run(
        [DEPLOY.parent / ".ci/chart", "v9.8.7", tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "goqueue-9.8.7.tgz") as archive:
        files = {member.name for member in archive if member.isfile()}
    assert "goqueue/files/rules/availability.yml" in files
    packaged = Rendered(chart=tmp_path / "goqueue-9.8.7.tgz", **EVERYTHING)
    rules = Rendered(**EVERYTHING).one("PrometheusRule")["spec"]
    assert packaged.one("PrometheusRule")["spec"] == rules


def test_helm_finds_nothing_to_object_to() -> None:
    linted = helm("lint", str(CHART), "--strict", values=EVERYTHING)
    assert linted.returncode == 0, linted.stdout + linted.stderr

"""The Helm chart: what it renders, and what a kubelet would make of its pods."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from support.containers import IMAGE_USER, Container
from support.go_tools import go_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHART: Final = Path(__file__).parents[2] / "deploy/helm/goqueue"
NAMESPACE: Final = "queues"
_WITHIN_S: Final = 120

Manifest: TypeAlias = dict[str, Any]


def helm(
    *arguments: str, values: Mapping[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart, with these values."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dict(values or {}), file)
        file.flush()
        return subprocess.run(
            # Built from its sources, helm takes Kubernetes for an old one.
            [go_tool("helm"), *arguments, "--values", file.name, "--kube-version", "1.33.0"],
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )


class Rendered:
    """The objects that a release has."""

    def __init__(self, chart: Path = CHART, **values: Any) -> None:
        command = ("template", "goqueue", str(chart), "--namespace", NAMESPACE)
        done = helm(*command, values=values)
        assert done.returncode == 0, done.stderr
        documents = yaml.safe_load_all(done.stdout)
        self.objects: list[Manifest] = [each for each in documents if each]

    def all(self, kind: str) -> Iterator[Manifest]:
        return (each for each in self.objects if each["kind"] == kind)

    def one(self, kind: str, name: str | None = None) -> Manifest:
        """The only one of its kind, or that of this name."""
        found = [e for e in self.all(kind) if name is None or e["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} of {kind} {name}"
        return found[0]

    def config(self) -> dict[str, Any]:
        """What the servers read."""
        text = self.one("ConfigMap", "goqueue")["data"]["goqueue.yaml"]
        return dict(yaml.safe_load(text))

    def secret(self, name: str, key: str) -> str:
        return self.data("Secret", name)[key].decode()

    def data(self, kind: str, name: str) -> dict[str, bytes]:
        """What a Secret or a ConfigMap holds."""
        held = self.one(kind, name)["data"]
        return {
            key: base64.b64decode(value) if kind == "Secret" else value.encode()
            for key, value in held.items()
        }


class Kubelet:
    """Makes containers of the pods of a release, and keeps their volumes in a folder."""

    def __init__(self, rendered: Rendered, folder: Path) -> None:
        self.rendered = rendered
        self._folder = folder

    def node(self, number: int) -> Container:
        """A pod of the StatefulSet."""
        workload = self.rendered.one("StatefulSet")
        name = f"{workload['metadata']['name']}-{number}"
        pod = workload["spec"]["template"]["spec"]
        claims = [each["metadata"]["name"] for each in workload["spec"]["volumeClaimTemplates"]]
        return self.container(name, pod, pod["containers"][0], claims)

    def container(
        self, pod_name: str, pod: Manifest, container: Manifest, claims: list[str] | None = None
    ) -> Container:
        """One container of a pod."""
        volumes = {each["name"]: each for each in pod.get("volumes", [])}
        volumes |= {name: {"persistentVolumeClaim": {"claimName": name}} for name in claims or ()}
        mounted = {
            mount["mountPath"]: self._volume(pod_name, mount["name"], volumes[mount["name"]])
            for mount in container.get("volumeMounts", [])
        }
        security = pod["securityContext"]
        assert security["runAsUser"] == security["runAsGroup"] == IMAGE_USER
        assert container["securityContext"]["readOnlyRootFilesystem"]
        command = [*container["command"], *container["args"]]
        return Container(
            pod_name, command, self._environment(pod_name, container), mounted, (), IMAGE_USER
        )

    def _environment(self, pod_name: str, container: Manifest) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in container.get("env", []):
            if "value" in each:
                value = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], each["value"])
            elif "fieldRef" in each["valueFrom"]:
                assert each["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
                value = pod_name
            else:
                wanted = each["valueFrom"]["secretKeyRef"]
                value = self.rendered.secret(wanted["name"], wanted["key"])
            found[each["name"]] = value
        return found

    def _volume(self, pod_name: str, name: str, volume: Manifest) -> Path:
        if "persistentVolumeClaim" in volume:
            own = "" if name == "backup" else f"-{pod_name}"
            return self._owned(self._folder / f"claim-{name}{own}")
        if "emptyDir" in volume:
            return self._owned(self._folder / f"empty-{name}-{pod_name}")
        kind, source = ("Secret", "secret") if "secret" in volume else ("ConfigMap", "configMap")
        about = volume[source]
        data = self.rendered.data(kind, about.get("secretName") or about["name"])
        items = about.get("items") or [{"key": key, "path": key} for key in data]
        place = self._owned(self._folder / f"{source}-{name}-{pod_name}")
        for item in items:
            file = place / item["path"]
            file.write_bytes(data[item["key"]])
            os.chown(file, 0, IMAGE_USER)
            # Every file of a volume can be read by the group of the pod.
            file.chmod(about.get("defaultMode", 0o644) | 0o440)
        return place

    @staticmethod
    def _owned(place: Path) -> Path:
        """A folder as a pod finds it: of root, and its own group may write."""
        if not place.exists():
            place.mkdir()
            os.chown(place, 0, IMAGE_USER)
            place.chmod(0o2775)
        return place

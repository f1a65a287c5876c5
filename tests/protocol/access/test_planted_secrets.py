"""Secrets that a broker is given, used rightly and wrongly, are told nobody.

They are in the environment of its process, where they were put, and in the answer of the request
that has made one, and nowhere else that a client, an operator or another user of the machine sees.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import tarfile
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from confluent_kafka.admin import ConfigResource

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from protocol.secure_clients import CLIENTS, Access, admin_of
from support.http_api import Answer, HttpApi
from support.oidc_server import AUDIENCE, oidc_process
from support.server import start_server
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

__all__ = ["start_server"]

PLANTED = "pl4nted"
"""In every secret, and in every wrong one: those are secrets of somebody, too."""
PASSWORD, ROOT_KEY, CLIENT_SECRET = (f"{PLANTED}-{each}" for each in ("user", "root-key", "oidc"))
PASSPHRASE, SIGNING = f"{PLANTED}-passphrase", f"{PLANTED}-webhook-secret"
WRONG = f"{PLANTED}-but-wrong"
TOPIC = "orders"
WAIT_S = 60.0


@pytest.fixture
def issuer() -> Iterator[str]:
    with oidc_process() as found:
        yield found


@pytest.fixture
def target() -> Iterator[WebhookTarget]:
    with WebhookTarget() as running:
        yield running


class Asking:
    """Uses secrets, and keeps whatever is answered."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.api = HttpApi(server.http_port)
        self.said: list[str] = []

    def http(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.api.ask(method, path, body, headers=named or {"X-API-Key": ROOT_KEY})
        self.said += [str(answer.headers), answer.body.decode()]
        return answer

    def grpc(self, **metadata: str) -> None:
        with grpc.insecure_channel(self.server.grpc_address) as channel:
            pairs = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
            call = services.AdminServiceStub(channel).ListTopics.future(
                pb.ListTopicsRequest(), metadata=pairs, timeout=WAIT_S
            )
            self.said += [str(call.exception()), str(call.trailing_metadata()), str(call.details())]

    def job(self, path: str, **body: str) -> str:
        """How a job with backups ended."""
        begun = self.http("POST", path, body)
        if begun.status != 202:
            return str(begun.status)
        deadline = time.monotonic() + WAIT_S
        while True:
            job = self.http("GET", f"/admin/backup/{begun.json['id']}").json["job"]
            if job["state"] != "running":
                return str(job["state"])
            assert time.monotonic() < deadline, job
            time.sleep(0.05)


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"alice:{password}".encode()).decode()


def use(asking: Asking, target: WebhookTarget, backups: str) -> str:
    """Every secret, rightly and wrongly; returns an API key that was made."""
    server = asking.server
    for password, is_right in ((PASSWORD, True), (WRONG, False)):
        access = Access(server.kafka_address, "PLAIN", "alice", password)
        with contextlib.nullcontext() if is_right else pytest.raises(PermissionError) as refused:
            CLIENTS["confluent"](access, TOPIC, b"x")
        asking.said.append(str(refused))
        assert (asking.http("GET", "/topics", Authorization=basic(password)).status == 200) is (
            is_right
        )
        asking.grpc(authorization=basic(password))
    made = asking.http("POST", "/admin/keys", {"name": "app", "roles": ["producer"]})
    assert made.status == 201, made
    key: str = made.json["key"]
    asking.said.remove(made.body.decode())  # shown here and nowhere else
    for each in (key, ROOT_KEY, WRONG, f"{key}x"):
        asking.http("GET", "/topics", X_API_Key=each)
        asking.http("GET", "/topics", Authorization=f"Bearer {each}")
        asking.http("GET", "/topics", X_API_Key=each, Authorization=f"Bearer {each}")
        asking.grpc(x_api_key=each)
    sign_in(asking)
    hook = {"url": target.url, "secret": SIGNING, "topics": [TOPIC]}
    created = asking.http("POST", "/admin/webhooks", hook)
    assert created.status == 201, created
    asking.said.remove(created.body.decode())
    asking.http("POST", "/admin/webhooks", {**hook, "secret": {"not": SIGNING}})
    asking.http("POST", "/admin/webhooks", {**hook, "surplus": 1})
    asking.http("POST", f"/admin/webhooks/{created.json['id']}/test")
    asking.http("GET", "/admin/webhooks")
    there = {"destination": backups}
    assert asking.job("/admin/backup", **there, passphrase=PASSPHRASE) == "done"
    assert asking.job("/admin/backup/latest/verify", **there, passphrase=PASSPHRASE) == "done"
    assert asking.job("/admin/backup/latest/verify", **there, passphrase=WRONG) != "done"
    asking.job("/admin/backup", **there, passphrase=PASSPHRASE, surplus="x")
    asking.job("/admin/backup", **there, passphrase=PASSPHRASE, key_file=WRONG)
    return key


def sign_in(asking: Asking) -> None:
    """By password, and at the provider, which is told the secret of this client."""
    for password in (PASSWORD, WRONG):
        asking.http("POST", "/session", {"user": "alice", "password": password})
    host = {"Host": f"127.0.0.1:{asking.server.http_port}"}
    begun = asking.http("GET", "/session/oidc", **host)
    assert begun.status in {302, 303, 307}, begun
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.headers["location"]).query))
    cookie = begun.headers["set-cookie"].partition(";")[0]
    path = f"/session/oidc/callback?code={WRONG}&state={asked['state']}"
    asking.http("GET", path, Cookie=cookie, **host)


def command_lines() -> str:
    """Of all processes that there are; `/proc` shows them to every user."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(found)


def bundle(server: ServerProcess, folder: Path) -> str:
    """What `goqueue debug bundle` packs, made with the root key."""
    log = folder / "server.log"
    log.write_text("\n".join(server.log))
    path = folder / "bundle.tar.gz"
    command = [sys.executable, "-m", "goqueue.cli", "debug", "bundle", str(path)]
    done = subprocess.run(
        [*command, "--server", server.http_url, "--log", str(log)],
        env={**server.environment, "GOQUEUE_API_KEY": ROOT_KEY, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    parts = [done.stdout, done.stderr]
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member)
            if content is not None:
                parts.append(content.read().decode())
    assert any("goqueue_" in part for part in parts), "it has asked the server"
    return "\n".join(parts)


def settings_of(server: ServerProcess) -> str:
    """What DescribeConfigs tells an administrator of the broker and a topic."""
    admin = admin_of(Access(server.kafka_address, "PLAIN", "alice", PASSWORD))
    wanted = [
        ConfigResource(ConfigResource.Type.BROKER, "1"),
        ConfigResource(ConfigResource.Type.TOPIC, TOPIC),
    ]
    found = [future.result(WAIT_S) for future in admin.describe_configs(wanted).values()]
    assert all(found)
    return str([(name, each.value) for part in found for name, each in part.items()])


def test_no_secret_that_a_broker_is_given_is_told_anywhere(
    start_server: Callable[..., ServerProcess],
    tmp_path: Path,
    issuer: str,
    target: WebhookTarget,
) -> None:
    server = start_server(
        *("--tracing-sampling=1", "--webhooks-enabled", "--webhooks-allow-private"),
        *("--log-level", "debug"),
        environment={
            "GOQUEUE_AUTH_ENABLED": "true",
            "GOQUEUE_AUTH_SUPER_USERS": "alice",
            "GOQUEUE_AUTH_MAX_LOGIN_DELAY": "0s",
            "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
            "GOQUEUE_SASL_MECHANISMS": "PLAIN",
            "GOQUEUE_SASL_USERS": f"alice:{PASSWORD}",
            "GOQUEUE_OIDC_ISSUER": issuer,
            "GOQUEUE_OIDC_AUDIENCE": AUDIENCE,
            "GOQUEUE_OIDC_CLIENT_ID": "console",
            "GOQUEUE_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        },
    )
    asking = Asking(server)
    try:
        key = use(asking, target, str(tmp_path / "backups"))
        for path in (
            "/metrics",
            "/traces/search",
            f"/traces/search?topic={TOPIC}",
            "/configuration",
        ):
            asking.http("GET", path)
        places = {
            "answers": "\n".join(asking.said),
            "command lines": command_lines(),
            "DescribeConfigs": settings_of(server),
            "the debug bundle": bundle(server, tmp_path),
        }
    finally:
        asking.api.close()
    server.stop()
    places["the log"] = "\n".join(server.log)
    audited = [path.read_text() for path in server.data_dir.parent.rglob("audit/audit-*.log")]
    places["the audit log"] = "".join(audited)
    assert '"webhook_created"' in places["the audit log"]
    assert "goqueue.cli" in places["command lines"]
    encoded = [base64.b64encode(f"alice:{each}".encode()).decode() for each in (PASSWORD, WRONG)]
    for name, text in places.items():
        for secret in (PLANTED, key, *encoded):
            at = text.find(secret)
            assert at < 0, f"{name}: ...{text[max(0, at - 200) : at + 60]}"
    assert json.dumps(SIGNING) not in places["the audit log"]

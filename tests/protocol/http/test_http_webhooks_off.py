"""A server without webhooks, which is the default, and one that allows public targets only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.http_api import HttpApi
from support.server import ServerProcess, start_server
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["start_server"]


def test_webhooks_are_off_unless_they_are_turned_on(api: HttpApi) -> None:
    for method, path in (("GET", ""), ("POST", ""), ("GET", "/wh_1"), ("POST", "/wh_1/test")):
        body = {"url": "https://example.com/"} if (method, path) == ("POST", "") else None
        refused = api.ask(method, f"/admin/webhooks{path}", body)
        assert (refused.status, refused.code) == (409, "webhooks_disabled")
    assert "__webhooks" not in str(api.get("/topics?internal=true"))


def test_a_private_target_is_refused_unless_its_network_is_named(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server("--webhooks-enabled", "--webhooks-allowed-networks", "127.0.0.1/32")
    api = HttpApi(server.http_port)
    with WebhookTarget() as target:
        made = api.post("/admin/webhooks", {"url": target.url})
        assert api.post(f"/admin/webhooks/{made['id']}/test")["outcome"] == "delivered"
        for host in ("127.0.0.2", "[::1]", "10.0.0.1", "192.168.0.1"):
            refused = api.ask("POST", "/admin/webhooks", {"url": f"http://{host}:{target.port}/"})
            assert (refused.status, refused.code) == (400, "webhook_target")
        assert len(target.received) == 1
    api.close()

"""The console of a cluster behind a load balancer: each request may go to another node."""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from goqueue.testing import Cluster
from support.console_axe import NARROW
from support.etcd import need_etcd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page, Route

NODES = (1, 2, 3)
SETTINGS = {"auth.enabled": "true", "auth.super_users": "root", "sasl.users": "root:secret"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(nodes=3, settings=SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> SimpleNamespace:
    return SimpleNamespace(http_url=cluster.http_url(1))


@pytest.mark.parametrize("viewport", [None, NARROW], ids=["wide", "narrow"])
def test_somebody_signs_in_works_and_signs_out_with_each_request_at_another_node(
    open_page: Callable[..., Page], cluster: Cluster, viewport: dict[str, int] | None
) -> None:
    turns = cycle(NODES)
    asked: set[int] = set()

    def pass_on(route: Route) -> None:
        node = next(turns)
        asked.add(node)
        url = route.request.url.replace(cluster.http_url(1), cluster.http_url(node))
        headers = {**route.request.headers, "host": cluster.http_url(1).partition("://")[2]}
        route.fulfill(response=route.fetch(url=url, headers=headers))

    name = "made-on-a-phone" if viewport else "made-at-a-desk"
    page = open_page("/no-such-page", **({} if viewport is None else {"viewport": viewport}))
    page.context.route(lambda url: "/console" not in url and "/events" not in url, pass_on)
    page.goto("/console/topics")
    page.get_by_label("User", exact=True).fill("root")
    page.get_by_label("Password", exact=True).fill("secret")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="New topic").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    for path in ("/cluster", "/access", "/configuration", "/topics"):
        page.goto(f"/console{path}")
        expect(page.locator("tbody tr").first).to_be_visible()
    assert asked == set(NODES)
    if viewport is not None:
        page.get_by_role("button", name="Open navigation").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")

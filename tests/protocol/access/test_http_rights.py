"""Every route of the HTTP API, asked by every kind of client.

`http_table.txt` says who may call each: p for the role producer, c for consumer, r for readonly.
The role admin may call all. Lists are open to all three, and show what each may see. A client
without a role is refused where a right is named, and the administrator of another tenant is told
the same of what that has as of what does not exist.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.protocols.http.api.rights import HEALTH, PUBLIC, Needs
from protocol.access.http_requests import name_of, request_of
from protocol.access.telling import told_alike
from support.guarded import BAD, OUTSIDERS, ROLES, SECRET

if TYPE_CHECKING:
    from goqueue.protocols.http.api.route import Route
    from support.guarded import GuardedServer, Things

TABLE = {
    name: letters
    for letters, name in (
        line.split(" ", 1)
        for line in Path(__file__).with_name("http_table.txt").read_text().splitlines()
    )
}
OF_PROVIDER = {"/session/oidc", "/session/oidc/callback"}
"""Which exist where an OIDC provider is configured."""
AWAY_S = 30.0
LETTERS = {"producer": "p", "consumer": "c", "readonly": "r"}


def ask(server: GuardedServer, route: Route, **headers: str) -> tuple[int, dict[str, str]]:
    status, told, _ = ask_about(server, server.known, route, headers)
    return status, told


def answered(server: GuardedServer, route: Route, authorization: str) -> int:
    """The status, asked for again while the metadata store of a busy machine is away (503)."""
    deadline_s = time.monotonic() + AWAY_S
    while True:
        status, _ = ask(server, route, authorization=authorization)
        if status != 503 or time.monotonic() > deadline_s:
            return status
        time.sleep(0.2)


def ask_about(
    server: GuardedServer, things: Things, route: Route, headers: dict[str, str], port: int = 0
) -> tuple[int, dict[str, str], bytes]:
    """Ask the node that has its turn, or that at a port."""
    target, body = request_of(route, things)
    connection = http.client.HTTPConnection("127.0.0.1", port or server.http_port, timeout=60)
    try:
        content = {} if body is None else {"content-type": "application/json"}
        sent = None if body is None else json.dumps(body)
        connection.request(route.method, target, sent, {**content, **headers})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        is_endless = told.get("content-type", "").startswith("text/event-stream")
        return answer.status, told, answer.read1() if is_endless else answer.read()
    finally:
        connection.close()


def routes_of(server: GuardedServer) -> list[Route]:
    """Every route; those that delete what others need come last."""
    routes = [each.route for each in server.nodes.all[0]._api.router.endpoints]
    return sorted(
        routes, key=lambda each: (each.method == "DELETE", each.path == "/topics/{topic}")
    )


def bearer(server: GuardedServer, who: str) -> str:
    return f"Bearer {server.token(who)}"


def basic(server: GuardedServer, who: str) -> str:
    return "Basic " + base64.b64encode(":".join(server.login(who)).encode()).decode()


def test_the_table_has_every_route(server: GuardedServer) -> None:
    assert sorted(TABLE) == sorted({name_of(each) for each in routes_of(server)})


def test_every_route_answers_every_kind_of_client_as_the_table_says(server: GuardedServer) -> None:
    before = server.fingerprint()
    wrong = []
    for route in routes_of(server):
        expected = 401
        status, headers = ask(server, route)
        if route.right in {PUBLIC, HEALTH}:
            assert status < 400 or (status == 404 and route.path in OF_PROVIDER), name_of(route)
        else:
            assert status == 401, name_of(route)
            assert headers["www-authenticate"].startswith("Bearer")
        for who in BAD:
            status, _ = ask(server, route, authorization=bearer(server, who))
            assert status == expected, (name_of(route), who)
        for who, letter in LETTERS.items():
            if letter not in TABLE[name_of(route)]:
                status, _ = ask(server, route, **{"x-api-key": server.token(who)})
                if status != 403:
                    wrong.append((name_of(route), who, status))
    assert not wrong
    assert server.fingerprint() == before, "a refused request has changed something"
    for route in routes_of(server):
        allowed = [who for who, letter in LETTERS.items() if letter in TABLE[name_of(route)]]
        for who in (*allowed, "admin"):
            status = answered(server, route, bearer(server, who))
            if status in {401, 403} or status >= 500:
                wrong.append((name_of(route), who, status))
    assert not wrong


@pytest.mark.parametrize("who", OUTSIDERS)
def test_outsiders_learn_and_change_nothing_of_a_tenant(server: GuardedServer, who: str) -> None:
    before = server.fingerprint()
    wrong: list[Any] = []
    key = {"authorization": bearer(server, who)}
    for route in routes_of(server):
        if route.method == "GET":  # as long as it has made nothing of such names itself
            _, _, told = ask_about(server, server.absent, route, key)
            wrong += [(name_of(route), told)] if SECRET.encode() in told else []
    for route in routes_of(server):
        port = server.http_port
        status, _, told = ask_about(server, server.hidden, route, key, port)
        absent_status, _, absent = ask_about(server, server.absent, route, key, port)
        is_alike = told_alike(told, server.hidden) == told_alike(absent, server.absent)
        if status != absent_status or not (is_alike or told == absent):
            wrong.append((name_of(route), status, told, absent_status, absent))
        names_its_right = type(route.right) is not Needs
        if who == "stranger" and names_its_right and status != 403:
            wrong.append((name_of(route), status, told, 403, b""))
    assert not wrong
    assert server.fingerprint() == before


@pytest.mark.parametrize("who", LETTERS)
def test_a_refusal_does_not_tell_what_there_is(server: GuardedServer, who: str) -> None:
    letter = LETTERS[who]
    for route in routes_of(server):
        if letter not in TABLE[name_of(route)]:
            key = {"authorization": bearer(server, who)}
            status, _, told = ask_about(server, server.hidden, route, key)
            absent_status, _, absent = ask_about(server, server.absent, route, key)
            assert (status, absent_status) == (403, 403), name_of(route)
            assert told_alike(told, server.hidden) == told_alike(absent, server.absent)


@pytest.mark.parametrize("who", ROLES)
def test_users_log_in_by_password(server: GuardedServer, who: str) -> None:
    (route,) = [each for each in routes_of(server) if name_of(each) == "GET /topics"]
    assert ask(server, route, authorization=basic(server, who))[0] == 200
    name, password = server.login(who)
    mistaken = base64.b64encode(f"{name}:{password}x".encode()).decode()
    assert ask(server, route, authorization=f"Basic {mistaken}")[0] == 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer  ", "Basic !!", "Basic Og==", "Digest x", "gq_00", "Bearer\tx"]
)
def test_an_authorization_header_that_says_nothing_is_refused(
    server: GuardedServer, header: str
) -> None:
    (route,) = [each for each in routes_of(server) if name_of(each) == "GET /topics"]
    assert ask(server, route, authorization=header)[0] == 401

"""People who sign in to the console: cookies, changes that need a token, and how sessions end."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from support.oidc_server import PERSON, oidc_process
from support.server import first_of, make_server, siblings
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.server import ServerProcess

ROOT_KEY = "root-key-of-the-test"
ROOT = {"X-API-Key": ROOT_KEY}
CLIENT = "goqueue-console"


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    json: Any

    def cookies(self) -> dict[str, str]:
        """The cookies that it sets, with what is said of each."""
        pairs = [value.partition("=") for name, value in self.headers if name == "set-cookie"]
        return {name: rest for name, _, rest in pairs}

    def cookie(self) -> str:
        """The cookie header that a browser sends from then on."""
        return "; ".join(
            f"{name}={rest.partition(';')[0]}" for name, rest in self.cookies().items()
        )


def ask(server: ServerProcess, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """Ask the next node, as a load balancer does, by the one name that clients know."""
    port = server.http_port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    data = None if body is None else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named["Host"] = f"127.0.0.1:{first_of(port)}"
    connection.request(method, path, data, named)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    lowered = [(name.lower(), value) for name, value in answer.getheaders()]
    return Answer(answer.status, lowered, json.loads(found) if found.startswith(b"{") else found)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_process() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: str) -> Iterator[ServerProcess]:
    made = make_server(
        tmp_path_factory.mktemp("sessions") / "data",
        environment={
            "GOQUEUE_AUTH_ENABLED": "true",
            "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
            "GOQUEUE_OIDC_ISSUER": issuer,
            "GOQUEUE_OIDC_AUDIENCE": "goqueue",
            "GOQUEUE_OIDC_ROLES_CLAIM": "realm_access.roles",
            "GOQUEUE_OIDC_ROLES": "ops=admin",
            "GOQUEUE_OIDC_CLIENT_ID": CLIENT,
        },
    )
    made.start()
    yield made
    made.close()


def add_user(server: ServerProcess, name: str, *roles: str) -> dict[str, str]:
    login = {"user": name, "password": f"password-of-{name}"}
    body = {"password": login["password"], "roles": list(roles)}
    assert ask(server, "PUT", f"/admin/users/{name}", body, **ROOT).status == 200
    return login


def sign_in(server: ServerProcess, body: dict[str, str]) -> tuple[str, str]:
    """The cookie and the token for changes."""
    answer = ask(server, "POST", "/session", body)
    assert answer.status == 200, answer
    return answer.cookie(), answer.json["csrf_token"]


def has_ended(server: ServerProcess, cookie: str) -> None:
    """A session counts no more: of a cluster, on every node within a second."""
    nodes = len(siblings(server.http_port))
    eventually(
        lambda: (
            {ask(server, "GET", "/topics", Cookie=cookie).status for _ in range(nodes)} == {401}
        ),
        "the session has ended",
        1.0 if nodes > 1 else 0.0,
    )


def test_a_cookie_stands_for_the_login_until_the_sign_out(server: ServerProcess) -> None:
    login = add_user(server, "alice", "admin")
    assert ask(server, "GET", "/session").json["principal"] is None
    answer = ask(server, "POST", "/session", login)
    ((name, said),) = answer.cookies().items()
    assert name.startswith("goqueue-session-")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(said.split("; "))
    assert "no-store" in dict(answer.headers)["cache-control"]
    cookie = answer.cookie()
    seen = ask(server, "GET", "/session", Cookie=f"other=1; {cookie}").json
    assert seen["principal"] == "User:alice"
    assert seen["roles"] == ["admin"]
    assert seen["allowed"]["change_access"] is True
    assert seen["csrf_token"] == answer.json["csrf_token"]
    assert ask(server, "GET", "/topics", Cookie=cookie).status == 200
    out = ask(server, "DELETE", "/session", Cookie=cookie)
    assert "Max-Age=0" in out.cookies()[name]
    has_ended(server, cookie)


def test_a_change_by_cookie_needs_the_token_of_its_session(server: ServerProcess) -> None:
    cookie, token = sign_in(server, add_user(server, "bob", "admin"))
    _, other = sign_in(server, add_user(server, "berta", "admin"))
    body = {"name": "by-cookie"}
    for wrong in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": other}, {"X-CSRF-Token": token[:-1]}):
        refused = ask(server, "POST", "/topics", body, Cookie=cookie, **wrong)
        assert (refused.status, refused.json["code"]) == (403, "csrf_token_required")
    assert ask(server, "GET", "/topics/by-cookie", **ROOT).status == 404
    assert ask(server, "DELETE", "/admin/users/berta", Cookie=cookie).status == 403
    made = ask(server, "POST", "/topics", body, Cookie=cookie, **{"X-CSRF-Token": token})
    assert made.status == 201


def test_a_session_has_the_rights_of_its_user(server: ServerProcess) -> None:
    cookie, token = sign_in(server, add_user(server, "carol", "readonly"))
    seen = ask(server, "GET", "/session", Cookie=cookie).json
    assert seen["allowed"] == {"create_topics": False, "see_cluster": False, "change_access": False}
    change = {"Cookie": cookie, "X-CSRF-Token": token}
    refused = ask(server, "POST", "/topics", {"name": "mine"}, **change)
    assert refused.status == 403
    assert "carol" in refused.json["detail"]


@pytest.mark.parametrize("how", ["deleted", "another password"])
def test_a_session_ends_with_its_user(server: ServerProcess, how: str) -> None:
    cookie, _ = sign_in(server, add_user(server, "dave", "admin"))
    assert ask(server, "GET", "/topics", Cookie=cookie).status == 200
    if how == "deleted":
        assert ask(server, "DELETE", "/admin/users/dave", **ROOT).status == 200
        add_user(server, "dave", "admin")  # with the same password, and another person
    else:
        body = {"password": "another-password"}
        assert ask(server, "PUT", "/admin/users/dave", body, **ROOT).status == 200
    has_ended(server, cookie)


def test_a_session_ends_with_its_key(server: ServerProcess) -> None:
    body = {"name": "console", "roles": ["admin"]}
    key = ask(server, "POST", "/admin/keys", body, **ROOT).json
    cookie, _ = sign_in(server, {"key": key["key"]})
    assert ask(server, "GET", "/session", Cookie=cookie).json["principal"] == f"User:{key['id']}"
    assert ask(server, "DELETE", f"/admin/keys/{key['id']}", **ROOT).status == 200
    has_ended(server, cookie)


def test_wrong_credentials_and_forged_cookies_get_nothing(server: ServerProcess) -> None:
    login = add_user(server, "erin", "admin")
    for wrong in (
        {**login, "password": "guess"},
        {"user": "nobody", "password": "x"},
        {"key": "gq_" + "0" * 64},
        {"key": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."},
    ):
        refused = ask(server, "POST", "/session", wrong)
        assert refused.status == 401, refused
        assert not refused.cookies()
    for empty in ({}, {"user": "erin"}, {"password": "x"}):
        assert ask(server, "POST", "/session", empty).status == 400
    name, _, value = sign_in(server, login)[0].partition("=")
    for forged in ("", "x", value[:-1], value + "A", value.swapcase()):
        assert ask(server, "GET", "/topics", Cookie=f"{name}={forged}").status == 401


def test_browsers_are_not_told_to_ask_for_a_password(server: ServerProcess) -> None:
    assert "Basic" in dict(ask(server, "GET", "/topics").headers)["www-authenticate"]
    page = ask(server, "GET", "/topics", Sec_Fetch_Site="same-origin")
    assert page.status == 401
    assert "Basic" not in dict(page.headers)["www-authenticate"]


def follow(server: ServerProcess, begun: Answer) -> str:
    """Where the provider sends the browser back to, without the host."""
    parts = urlsplit(dict(begun.headers)["location"])
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}")
    back = connection.getresponse().headers["location"]
    connection.close()
    port = str(first_of(server.http_port))
    assert back.startswith(f"http://127.0.0.1:{port}/session/oidc/callback?")
    return back.partition(port)[2]


def test_people_sign_in_at_the_oidc_provider(server: ServerProcess) -> None:
    assert ask(server, "GET", "/session").json["methods"] == ["password", "key", "oidc"]
    begun = ask(server, "GET", "/session/oidc")
    assert begun.status == 303
    assert "SameSite=Lax" in next(iter(begun.cookies().values()))
    back = follow(server, begun)
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    linked["Sec-Fetch-Dest"] = "document"
    done = ask(server, "GET", back, Cookie=begun.cookie(), **linked)
    assert (done.status, dict(done.headers)["location"]) == (303, "/console")
    session = next(name for name in done.cookies() if "session" in name)
    assert "SameSite=Strict" in done.cookies()[session]
    seen = ask(server, "GET", "/session", Cookie=done.cookie()).json
    assert (seen["principal"], seen["roles"]) == (f"User:{PERSON}", ["admin"])
    # A code and a state count once.
    again = ask(server, "GET", back, Cookie=begun.cookie())
    assert dict(again.headers)["location"] == "/console?sign-in=failed"
    assert not any("session" in name for name in again.cookies())


def test_a_sign_in_that_another_browser_began_is_refused(server: ServerProcess) -> None:
    begun, other = ask(server, "GET", "/session/oidc"), ask(server, "GET", "/session/oidc")
    for cookie in ("", other.cookie()):
        back = follow(server, begun)
        refused = ask(server, "GET", back, Cookie=cookie)
        assert dict(refused.headers)["location"] == "/console?sign-in=failed"
        assert not any("session" in name for name in refused.cookies())
        begun = ask(server, "GET", "/session/oidc")
    forged = ask(server, "GET", "/session/oidc/callback?state=x&code=y", Cookie=begun.cookie())
    assert dict(forged.headers)["location"] == "/console?sign-in=failed"

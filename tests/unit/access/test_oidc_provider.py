"""What becomes of tokens when the provider has other keys, hangs, redirects or names no tenant."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from joserfc.jwk import RSAKey
from msgspec.structs import replace

from goqueue.access.oidc.provider import read_json
from goqueue.access.oidc.threads import OidcThreads
from goqueue.access.oidc.tokens import OidcTokens
from goqueue.access.settings import AccessSettings
from goqueue.model.errors import AuthenticationFailedError, ProviderBusyError
from support.brokers import running_broker
from unit.access.test_oidc import Clock, check, running, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.oidc_server import Provider

YEARS_S = 10 * 365 * 86_400


def test_a_token_of_a_withdrawn_key_is_refused_once_the_keys_were_fetched_again() -> None:
    async def scenario() -> None:
        clock = Clock()
        with running() as provider, closing(OidcTokens(settings_of(provider), clock)) as tokens:
            stolen = provider.token("writer", exp=int(time.time()) + YEARS_S)
            await tokens.check(stolen)
            provider.key = RSAKey.generate_key(2048, parameters={"kid": "second"})
            clock.ahead_s = 6.0
            await tokens.check(provider.token("reader"))  # its key is not known: keys are fetched
            with pytest.raises(AuthenticationFailedError, match="unknown key"):
                await tokens.check(stolen)

    asyncio.run(scenario())


def test_a_remembered_token_is_checked_again_when_the_keys_are_old() -> None:
    async def scenario() -> None:
        clock = Clock()
        with running() as provider, closing(OidcTokens(settings_of(provider), clock)) as tokens:
            stolen = provider.token("writer", exp=int(time.time()) + YEARS_S)
            await tokens.check(stolen)
            provider.key = RSAKey.generate_key(2048, parameters={"kid": "second"})
            clock.ahead_s = 601.0
            await tokens.check(stolen)  # by the old keys, while others are fetched
            await tokens._keys._known.wait()
            with pytest.raises(AuthenticationFailedError, match="unknown key"):
                await tokens.check(stolen)
            assert provider.reads == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("claims", [{}, {"iat": None}])
def test_a_token_counts_no_longer_than_the_longest_lifetime(claims: dict[str, Any]) -> None:
    async def scenario(provider: Provider) -> None:
        clock = Clock()
        settings = settings_of(provider, max_token_lifetime_s=3600.0, clock_skew_s=0.0)
        with closing(OidcTokens(settings, clock)) as tokens:
            token = provider.token("writer", exp=int(time.time()) + YEARS_S, **claims)
            found = await tokens.check(token)
            assert found.expires_ms <= clock.now_ms() + 3_600_000
            clock.ahead_s = 1800.0
            assert await tokens.check(token) == found  # also when it is checked again
            clock.ahead_s = 3601.0
            with pytest.raises(AuthenticationFailedError, match="expired"):
                await tokens.check(token)

    with running() as provider:
        asyncio.run(scenario(provider))


@pytest.mark.parametrize("expiry", [float("nan"), float("-inf"), -(10**400)])
def test_a_token_whose_expiry_is_no_time_is_refused(expiry: float) -> None:
    with running() as provider, pytest.raises(AuthenticationFailedError):
        check(settings_of(provider), provider.token("writer", exp=expiry))


def test_known_keys_are_not_waited_for_while_the_provider_hangs() -> None:
    async def scenario() -> None:
        clock, go_on = Clock(), threading.Event()
        with running() as provider, closing(OidcTokens(settings_of(provider), clock)) as tokens:
            await tokens.check(provider.token("writer"))
            keys = provider.keys
            provider.keys = lambda: go_on.wait(60) and keys()  # hangs
            try:
                clock.ahead_s = 601.0
                later = int(time.time()) + 1200
                await asyncio.wait_for(tokens.check(provider.token("reader", exp=later)), 30)
                assert provider.reads == 1
            finally:
                go_on.set()

    asyncio.run(scenario())


def test_more_questions_than_may_wait_are_refused() -> None:
    async def scenario() -> None:
        go_on = threading.Event()
        with closing(OidcThreads()) as threads:
            asked = [asyncio.create_task(threads.ask(go_on.wait)) for _ in range(34)]
            await asyncio.sleep(0)
            try:
                with pytest.raises(ProviderBusyError, match="32 requests wait"):
                    await threads.ask(go_on.wait)
            finally:
                go_on.set()
            assert await asyncio.gather(*asked) == [True] * 34
            assert await threads.ask(go_on.wait)

    asyncio.run(scenario())


def test_redirects_are_not_followed_and_tell_nobody_the_secret() -> None:
    seen: list[str | None] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/token"
        with pytest.raises(OSError, match="302"):
            read_json(url, b"code=1", {"Authorization": "Basic c2VjcmV0"})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert seen == []


def test_a_token_without_its_tenant_is_refused_but_of_a_super_user(
    tmp_path: Path,
) -> None:
    async def scenario(folder: Path) -> None:
        with running() as provider:
            oidc = settings_of(provider, tenant_claim="org")
            settings = AccessSettings(
                is_enabled=True, uses_tenants=True, super_users=frozenset({"boss"}), oidc=oidc
            )
            writer = provider.token("writer", iat=None)
            async with running_broker(folder / "a", access=settings) as broker:
                made = broker.authenticator
                with pytest.raises(AuthenticationFailedError, match="without a tenant"):
                    await made.bearer_login(writer, "h")
                assert (
                    await made.bearer_login(provider.token("boss", iat=None), "h")
                ).principal.name
            optional = replace(settings, oidc=replace(oidc, tenant_optional=True))
            async with running_broker(folder / "b", access=optional) as broker:
                assert (
                    await broker.authenticator.bearer_login(writer, "h")
                ).principal.tenant is None

    asyncio.run(scenario(tmp_path))


def test_another_key_than_the_id_names_is_a_wrong_login(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = AccessSettings(is_enabled=True, root_key="secret", max_login_delay_s=0.001)
        async with running_broker(tmp_path, access=settings) as broker:
            made = broker.authenticator
            throttle, now_s = made._throttle, broker.clock.monotonic_s()
            await made.password_login("key_root", "secret", "h")
            assert throttle.delay_s("h", "", now_s) == 0
            for _ in range(60):  # so many that those from this address are slowed
                with pytest.raises(AuthenticationFailedError, match="is not the id"):
                    await made.password_login("key_0123456789abcdef", "secret", "h")
            assert throttle.delay_s("h", "", now_s) > 0

    asyncio.run(scenario())

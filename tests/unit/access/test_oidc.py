"""Tokens of an OIDC provider: which are accepted, and every way to forge one."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from contextlib import closing, contextmanager

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from msgspec.structs import replace

from goqueue.access.name_rules import parse_rules
from goqueue.access.oidc.tokens import OidcTokens
from goqueue.access.principals import Principal, PrincipalKind
from goqueue.access.settings import OidcSettings
from goqueue.model.errors import AuthenticationFailedError
from goqueue.runtime.clock import SystemClock
from support.oidc_server import AUDIENCE, Provider, serve


@contextmanager
def running():
    provider = Provider()
    server = serve(provider)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def provider():
    with running() as made:
        yield made


def settings_of(provider: Provider, **others) -> OidcSettings:
    usual = OidcSettings(
        issuer=provider.issuer,
        audiences=frozenset({AUDIENCE}),
        clock_skew_s=5.0,
        roles_claim="realm_access.roles",
        roles={"writers": "producer"},
    )
    return replace(usual, **others)


def check(settings: OidcSettings, *tokens: str):
    async def run():
        with closing(OidcTokens(settings, SystemClock())) as checked:
            return [await checked.check(token) for token in tokens]

    return asyncio.run(run())


def test_a_token_has_the_principal_and_the_roles_of_its_claims(provider) -> None:
    (found,) = check(settings_of(provider), provider.token("writer"))
    roles = frozenset({"producer"})
    assert found.principal == Principal("writer", PrincipalKind.TOKEN, roles)
    assert 290 < found.expires_ms / 1000 - time.time() < 310


def test_roles_that_the_settings_do_not_name_give_nothing(provider) -> None:
    claims = {"realm_access": {"roles": ["admin", "producer", "unheard-of"]}}
    (found,) = check(settings_of(provider), provider.token("eve", **claims))
    assert found.principal.roles == frozenset()


def test_rules_map_a_claim_to_a_name_and_another_to_a_tenant(provider) -> None:
    rules = parse_rules(["RULE:(.*)@example.org/$1/L"])
    settings = settings_of(
        provider, principal_claim="email", principal_rules=rules, tenant_claim="org.id"
    )
    token = provider.token("x", email="Zoe@example.org", org={"id": "acme"})
    (found,) = check(settings, token)
    assert (found.principal.name, found.principal.tenant) == ("zoe", "acme")
    with pytest.raises(AuthenticationFailedError, match="no rule"):
        check(settings, provider.token("x", email="zoe@example.com"))


def part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsigned(provider: Provider, algorithm: str) -> str:
    return f"{part({'alg': algorithm, 'kid': 'first'})}.{part(provider.claims('admin-svc'))}."


def signed_with_the_public_key(provider: Provider) -> str:
    """The oldest trick: HMAC with what everybody can read."""
    public = provider.key.as_pem(private=False)
    said = f"{part({'alg': 'HS256', 'kid': 'first'})}.{part(provider.claims('admin-svc'))}"
    mac = hmac.digest(public, said.encode(), "sha256")
    return f"{said}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def signed_by_another(provider: Provider) -> str:
    other = RSAKey.generate_key(2048, parameters={"kid": "first"})
    return jwt.encode({"alg": "RS256", "kid": "first"}, provider.claims("admin-svc"), other)


def with_a_secret(provider: Provider) -> str:
    secret = OctKey.generate_key(256, parameters={"kid": "first"})
    return jwt.encode({"alg": "HS256", "kid": "first"}, provider.claims("admin-svc"), secret)


def with_its_own_key(provider: Provider) -> str:
    """A header that brings the key to check with."""
    other = RSAKey.generate_key(2048)
    header = {"alg": "RS256", "jwk": other.as_dict(private=False), "kid": "first"}
    return jwt.encode(header, provider.claims("admin-svc"), other)


def changed(provider: Provider) -> str:
    head, _, signature = provider.token("writer").split(".")
    return f"{head}.{part(provider.claims('admin-svc'))}.{signature}"


FORGED = {
    "alg none": lambda provider: unsigned(provider, "none"),
    "alg None": lambda provider: unsigned(provider, "None"),
    "hmac of the public key": signed_with_the_public_key,
    "another key": signed_by_another,
    "a shared secret": with_a_secret,
    "a key in the header": with_its_own_key,
    "changed claims": changed,
    "cut": lambda provider: provider.token("writer")[:-20],
    "without a signature": lambda provider: provider.token("writer").rpartition(".")[0] + ".",
    "another issuer": lambda provider: provider.token("writer", iss="https://evil.example"),
    "another audience": lambda provider: provider.token("writer", aud="billing"),
    "no audience": lambda provider: provider.token("writer", aud=None),
    "expired": lambda provider: provider.token("writer", exp=int(time.time()) - 60),
    "no expiry": lambda provider: provider.token("writer", exp=None),
    "not yet": lambda provider: provider.token("writer", nbf=int(time.time()) + 60),
    "made in the future": lambda provider: provider.token("writer", iat=int(time.time()) + 60),
    "no subject": lambda provider: provider.token("writer", sub=None),
    "a number as subject": lambda provider: provider.token("writer", sub=7),
    "not a token": lambda _: "hello",
    "empty": lambda _: "",
    "huge": lambda _: "a" * 100_000,
    "surrogates": lambda _: "\ud800.a.b",
    "dots": lambda _: "..",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=list(FORGED))
def test_a_forged_token_is_refused(provider, forge) -> None:
    with pytest.raises(AuthenticationFailedError):
        check(settings_of(provider), forge(provider))


def test_clocks_may_differ_by_the_skew(provider) -> None:
    now = int(time.time())
    check(settings_of(provider, clock_skew_s=90.0), provider.token("writer", exp=now - 60))
    check(settings_of(provider, clock_skew_s=90.0), provider.token("writer", nbf=now + 60))


def test_keys_are_fetched_once_and_again_for_a_key_that_is_not_known() -> None:
    with running() as provider:

        async def run() -> None:
            clock = Clock()
            with closing(OidcTokens(settings_of(provider), clock)) as tokens:
                await tokens.check(provider.token("writer"))
                await tokens.check(provider.token("reader"))
                assert provider.reads == 1
                provider.key = RSAKey.generate_key(2048, parameters={"kid": "second"})
                rotated = provider.token("writer", jti="1")
                with pytest.raises(AuthenticationFailedError, match="unknown key"):
                    await tokens.check(rotated)  # not so soon after the last reading
                clock.ahead_s = 6.0
                await tokens.check(rotated)
                assert provider.reads == 2

        asyncio.run(run())


def test_a_token_that_was_accepted_is_refused_when_it_expires(provider) -> None:
    async def run() -> None:
        clock = Clock()
        with closing(OidcTokens(settings_of(provider, clock_skew_s=0.0), clock)) as tokens:
            token = provider.token("writer")
            assert await tokens.check(token) == await tokens.check(token)
            clock.ahead_s = 301.0
            with pytest.raises(AuthenticationFailedError, match="expired"):
                await tokens.check(token)

    asyncio.run(run())


class Clock(SystemClock):
    """The system's clock, set forward."""

    ahead_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self.ahead_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s

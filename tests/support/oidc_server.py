"""An OpenID Connect provider of a few lines, as a process of its own.

It has a configuration page, keys, and a token endpoint for client credentials: whoever asks as
`client_id` gets a token with that subject. Its sign-in page asks nobody anything: whoever goes
there is `person`, and is sent back at once with a code, which the token endpoint takes with PKCE.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

if TYPE_CHECKING:
    from collections.abc import Iterator

AUDIENCE = "goqueue"
PERSON = "person"
ROLES = {"admin-svc": ["ops"], "writer": ["writers"], "reader": ["readers"], PERSON: ["ops"]}


class Provider:
    """The keys, and the tokens made with them."""

    def __init__(self, lifetime_s: float = 300.0) -> None:
        self.key = RSAKey.generate_key(2048, parameters={"kid": "first", "use": "sig"})
        self.issuer = ""
        self.lifetime_s = lifetime_s
        self.reads = 0
        self.codes: dict[str, dict[str, str]] = {}
        """What was asked for at the sign-in page, by the code that was given."""

    def keys(self) -> dict[str, Any]:
        self.reads += 1
        return dict(KeySet([self.key]).as_dict(private=False))

    def claims(self, subject: str, **others: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": subject,
            "iat": now,
            "exp": now + int(self.lifetime_s),
            "realm_access": {"roles": ROLES.get(subject, [])},
        }
        return {key: value for key, value in (usual | others).items() if value is not None}

    def token(self, subject: str, **others: Any) -> str:
        header = {"alg": "RS256", "kid": self.key.kid}
        return jwt.encode(header, self.claims(subject, **others), self.key)


class _Handler(BaseHTTPRequestHandler):
    """Answers for the provider of its server."""

    provider: Provider

    def do_GET(self) -> None:
        if self.path.endswith("/.well-known/openid-configuration"):
            document = {
                "issuer": self.provider.issuer,
                "jwks_uri": f"{self.provider.issuer}/keys",
                "token_endpoint": f"{self.provider.issuer}/token",
                "authorization_endpoint": f"{self.provider.issuer}/authorize",
            }
            self._answer(document)
        elif self.path.startswith("/authorize?"):
            self._sign_in(dict(parse_qsl(urlsplit(self.path).query)))
        elif self.path == "/keys":
            self._answer(self.provider.keys())
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        asked = dict(parse_qsl(body))
        if asked.get("grant_type") == "authorization_code":
            self._exchange(asked)
            return
        client = (parse_qs(body).get("client_id") or [""])[0]
        scheme, _, basic = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            client = base64.b64decode(basic).decode().partition(":")[0]
        token = self.provider.token(client)
        self._answer(
            {"access_token": token, "token_type": "Bearer", "expires_in": self.provider.lifetime_s}
        )

    def _sign_in(self, asked: dict[str, str]) -> None:
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.provider.codes[code] = asked
        back = urlencode({"state": asked["state"], "code": code})
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{back}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _exchange(self, asked: dict[str, str]) -> None:
        begun = self.provider.codes.pop(asked["code"], None)
        digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            begun is None
            or begun["code_challenge"] != challenge
            or begun["redirect_uri"] != asked["redirect_uri"]
        ):
            self.send_error(400)
            return
        token = self.provider.token(PERSON, aud=begun["client_id"], nonce=begun["nonce"])
        self._answer({"access_token": "opaque", "id_token": token, "token_type": "Bearer"})

    def _answer(self, document: dict[str, Any]) -> None:
        raw = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(provider: Provider) -> ThreadingHTTPServer:
    """A server on a free port, which the caller runs."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (_Handler,), {"provider": provider})
    )
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    return server


@contextmanager
def oidc_process(lifetime_s: float = 300.0) -> Iterator[str]:
    """A provider in a process of its own; yields its issuer."""
    tests = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "support.oidc_server", str(lifetime_s)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests},
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    made = Provider(float(sys.argv[1]))
    listening = serve(made)
    sys.stdout.write(f"{made.issuer}\n")
    sys.stdout.flush()
    listening.serve_forever()

"""An OpenID Connect provider of a few lines, as a process of its own.

It has a configuration page, keys, and a token endpoint for client credentials: whoever asks as
`client_id` gets a token with that subject.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

if TYPE_CHECKING:
    from collections.abc import Iterator

AUDIENCE = "goqueue"
ROLES = {"admin-svc": ["ops"], "writer": ["writers"], "reader": ["readers"]}


class Provider:
    """The keys, and the tokens made with them."""

    def __init__(self, lifetime_s: float = 300.0) -> None:
        self.key = RSAKey.generate_key(2048, parameters={"kid": "first", "use": "sig"})
        self.issuer = ""
        self.lifetime_s = lifetime_s
        self.reads = 0

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


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/.well-known/openid-configuration"):
                document = {
                    "issuer": provider.issuer,
                    "jwks_uri": f"{provider.issuer}/keys",
                    "token_endpoint": f"{provider.issuer}/token",
                }
                self._answer(document)
            elif self.path == "/keys":
                self._answer(provider.keys())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            client = (parse_qs(body).get("client_id") or [""])[0]
            scheme, _, basic = self.headers.get("Authorization", "").partition(" ")
            if scheme == "Basic":
                client = base64.b64decode(basic).decode().partition(":")[0]
            token = provider.token(client)
            self._answer(
                {"access_token": token, "token_type": "Bearer", "expires_in": provider.lifetime_s}
            )

        def _answer(self, document: dict[str, Any]) -> None:
            raw = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def serve(provider: Provider) -> ThreadingHTTPServer:
    """A server on a free port, which the caller runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(provider))
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

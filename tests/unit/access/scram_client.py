"""The client's side of SCRAM, written from RFC 5802 alone and as plainly as possible."""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    def __init__(self, algorithm: str, user: str, password: str, nonce: str) -> None:
        self.algorithm = algorithm
        self.password = password.encode()
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self.bare = f"n={escaped},r={nonce}"
        self.said = b""
        self.salted = b""

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, server_first: bytes, header: bytes = b"n,,") -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        self.salted = hashlib.pbkdf2_hmac(self.algorithm, self.password, salt, iterations)
        without_proof = f"c={base64.b64encode(header).decode()},r={fields['r']}"
        self.said = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        client_key = self._hmac(self.salted, b"Client Key")
        signature = self._hmac(hashlib.new(self.algorithm, client_key).digest(), self.said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def trusts(self, server_final: bytes) -> bool:
        server_key = self._hmac(self.salted, b"Server Key")
        signature = base64.b64encode(self._hmac(server_key, self.said))
        return server_final == b"v=" + signature

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self.algorithm).digest()

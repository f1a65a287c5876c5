"""The SASL mechanisms that clients may log in with."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Mechanism(StrEnum):
    """How a client says who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


SCRAM_HASHES: Final = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
"""The SCRAM mechanisms, each with its hash: those that a user has stored keys for."""

"""The Kafka listener before a login: the same requests, and those of a login, to a broker that asks
for one."""

from __future__ import annotations

from typing import Final

from fuzz.live import broker
from fuzz.target_kafka import requests, send
from goqueue.wire.kafka.api_keys import ApiKey

_LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS)
_WEIGHT: Final = 20
"""How often each request of a login is among the seeds: the others are refused by their number."""


def seeds() -> list[bytes]:
    """Requests of every API, most of them of a login."""
    every = requests()
    login = [each for each in every if int.from_bytes(each[:2], "big") in _LOGIN]
    return every + login * _WEIGHT


def check(data: bytes) -> None:
    """The broker answers or closes; what became of it is seen after the round."""
    found = broker("--sasl-enabled", environment={"GOQUEUE_SASL_USERS": "fuzz:fuzz"})
    send(found.kafka_port, data)

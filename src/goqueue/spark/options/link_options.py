"""The options that say where the broker is and who we are, for reading and writing alike."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.link.addresses import Address
from goqueue.client.settings import MECHANISMS, ClientSettings
from goqueue.spark.kafka.settings import LinkSettings
from goqueue.spark.options.option_reader import OptionReader

if TYPE_CHECKING:
    from collections.abc import Mapping

LINK_OPTIONS: Final = (
    "bootstrap.servers",
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.username",
    "kafka.sasl.password",
    "kafka.sasl.jaas.config",
    "kafka.sasl.api.key",
    "kafka.sasl.token",
    "kafka.ssl.ca.location",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.type",
    "kafka.ssl.certificate.location",
    "kafka.ssl.key.location",
    "kafka.ssl.endpoint.identification.algorithm",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.retry.backoff.ms",
    "kafka.retry.backoff.max.ms",
)

_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_JAAS: Final = re.compile(r"\b(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_DEFAULT_PORT: Final = 9092
_MAX_PORT: Final = 65535


def link_settings(options: Mapping[str, str]) -> LinkSettings:
    """The settings of a connection.

    Raises:
        OptionsError: the address or an option makes no sense.
    """
    reader = OptionReader(options, LINK_OPTIONS)
    settings = parse_link(reader)
    reader.finish()
    return settings


def parse_link(reader: OptionReader) -> LinkSettings:
    """The settings of a connection; problems are left with the reader."""
    given = [name for name in ("bootstrap.servers", "kafka.bootstrap.servers") if reader.has(name)]
    if not given:
        reader.problem("bootstrap.servers is missing: expected host:port of the broker")
    servers = reader.parsed(given[0], parse_servers) if given else None
    if len(given) > 1 and reader.parsed(given[1], parse_servers) != servers:
        reader.problem("bootstrap.servers and kafka.bootstrap.servers name different brokers")
    some_s = partial(reader.duration_s, may_be_zero=False)
    client = ClientSettings(
        client_id=reader.text("kafka.client.id") or "goqueue-spark",
        connect_timeout_ms=some_s("kafka.socket.connection.setup.timeout.ms", 10.0) * 1000,
        call_timeout_ms=some_s("kafka.request.timeout.ms", 30.0) * 1000,
        backoff_ms=some_s("kafka.retry.backoff.ms", 0.1) * 1000,
        max_backoff_ms=some_s("kafka.retry.backoff.max.ms", 1.0) * 1000,
        **_security(reader),
    )
    patience_s = reader.duration_s("kafka.default.api.timeout.ms", 60.0)
    return LinkSettings(servers or (), client, patience_s)


def parse_servers(text: str) -> tuple[Address, ...]:
    """`one:9092,two:9092`; an IPv6 address stands in brackets.

    Raises:
        ValueError: an address is none.
    """
    found = []
    for address in filter(None, map(str.strip, text.split(","))):
        host, colon, port = address.rpartition(":")
        if not colon or (host.count(":") and not host.endswith("]")):
            host, port = address, str(_DEFAULT_PORT)
        if not port.isdecimal() or not 0 < int(port) <= _MAX_PORT or not host:
            raise ValueError(f"{address!r} is no address: expected host:port")
        found.append(Address(host.strip("[]"), int(port)))
    if not found:
        raise ValueError("no address is given: expected host:port")
    return tuple(found)


def _security(reader: OptionReader) -> dict[str, Any]:
    protocol = reader.choice(
        "kafka.security.protocol", {each: each for each in _PROTOCOLS}, "plaintext"
    )
    user, password = _credentials(reader)
    mechanism, bearer = None, dict[str, str]()
    if protocol.startswith("sasl"):
        known = {each.lower(): each for each in MECHANISMS}
        bearer = _bearer(reader)
        mechanism = reader.choice(
            "kafka.sasl.mechanism", known, "OAUTHBEARER" if bearer else "PLAIN"
        )
        if mechanism == "OAUTHBEARER" and not bearer:
            reader.problem(
                "kafka.sasl.mechanism=OAUTHBEARER needs kafka.sasl.api.key or kafka.sasl.token"
            )
            mechanism = None
        elif bearer and mechanism != "OAUTHBEARER":
            reader.problem(
                f"kafka.sasl.mechanism={mechanism}; expected OAUTHBEARER with an API key or a token"
            )
            bearer = {}
        elif not user and not bearer:
            reader.problem(
                f"kafka.security.protocol={protocol} needs kafka.sasl.username and "
                "kafka.sasl.password, or kafka.sasl.jaas.config with both"
            )
    algorithm = "kafka.ssl.endpoint.identification.algorithm"
    tls = {
        "ca_file": _ca_file(reader),
        "certificate_file": reader.text("kafka.ssl.certificate.location"),
        "key_file": reader.text("kafka.ssl.key.location"),
        "check_host_name": (
            not reader.has(algorithm) or reader.text(algorithm) not in {None, "none"}
        ),
    }
    sasl = {"sasl_mechanism": mechanism, "username": user, "password": password, **bearer}
    return {"tls": True, **tls, **sasl} if protocol.endswith("ssl") else sasl


def _bearer(reader: OptionReader) -> dict[str, str]:
    """An API key or a token, whichever is given."""
    found = {"api_key": "kafka.sasl.api.key", "token": "kafka.sasl.token"}
    given = {name: text for name, option in found.items() if (text := reader.text(option))}
    if len(given) > 1:
        reader.problem("kafka.sasl.api.key and kafka.sasl.token: expected one of them")
        given.pop("token")
    return given


def _credentials(reader: OptionReader) -> tuple[str, str]:
    """User and password by their own options, or out of what Java clients call the JAAS config."""
    jaas = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, value in _JAAS.findall(reader.text("kafka.sasl.jaas.config") or "")
    }
    return (
        reader.text("kafka.sasl.username") or jaas.get("username", ""),
        reader.text("kafka.sasl.password") or jaas.get("password", ""),
    )


def _ca_file(reader: OptionReader) -> str | None:
    store = reader.text("kafka.ssl.truststore.location")
    kind = (reader.text("kafka.ssl.truststore.type") or "").upper()
    if store is not None and kind != "PEM":
        reader.problem(
            "kafka.ssl.truststore.location: only PEM files can be read here: set "
            "kafka.ssl.truststore.type=PEM, or name the file in kafka.ssl.ca.location"
        )
    return reader.text("kafka.ssl.ca.location") or store

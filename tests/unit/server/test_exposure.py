"""Which listeners may start: all on loopback, others with logins and TLS, or with a word."""

from __future__ import annotations

import pytest

from goqueue.server.config_table import ConfigError
from goqueue.server.security.exposure import exposure, is_loopback
from unit.server.config_cases import load

LOGINS = {"GOQUEUE_AUTH_ENABLED": "true", "GOQUEUE_API_ROOT_KEY": "gq_" + "0" * 64}
PROXY = {"GOQUEUE_TLS_TERMINATED_BY_PROXY": "true"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
@pytest.mark.parametrize("listener", ["KAFKA", "HTTP", "GRPC"])
def test_listeners_on_loopback_need_nothing(listener: str, host: str) -> None:
    config = load(environment={f"GOQUEUE_LISTENERS_{listener}": f"{host}:7654"})
    assert exposure(config) is None


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]", "10.1.2.3", "broker.example.com"])
@pytest.mark.parametrize("listener", ["kafka", "http", "grpc"])
def test_any_other_address_is_refused_in_a_sentence_that_says_what_to_do(
    listener: str, host: str
) -> None:
    environment = {f"GOQUEUE_LISTENERS_{listener.upper()}": f"{host}:7654"}
    for more in ({}, LOGINS, PROXY):
        with pytest.raises(ConfigError) as caught:
            load(environment=environment | more)
        (problem,) = caught.value.problems
        assert problem.setting == f"listeners.{listener}"
        assert "--insecure does without" in problem.expected
        assert ("auth.enabled" in problem.expected) == (more is not LOGINS)
        assert ("or tls.enabled" in problem.expected) == (more is LOGINS)
    assert exposure(load(environment=environment | LOGINS | PROXY)) is None
    open_to = exposure(load(["--insecure"], environment))
    assert open_to is not None
    assert listener in open_to
    assert "without logins and TLS" in open_to


def test_a_login_of_kafka_alone_lets_the_kafka_listener_start() -> None:
    login = {"GOQUEUE_SASL_ENABLED": "true", **PROXY}
    load(environment={"GOQUEUE_LISTENERS_KAFKA": ":9092", **login})
    with pytest.raises(ConfigError, match=r"listeners\.http"):
        load(environment={"GOQUEUE_LISTENERS_HTTP": ":8080", **login})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "localhost.example.com"])
def test_what_others_can_reach_is_no_loopback(host: str) -> None:
    assert not is_loopback(host)

"""The source in a real Spark, against a broker with TLS that asks everyone who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from support.certificates import Authority
from support.server import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from support.server import ServerProcess

ROOT_KEY = "a-root-key-for-tests-only"
TOPIC = "orders"
MESSAGES = 30

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[ServerProcess]:
    """A broker with a topic, which only `spark` and the root key may read."""
    cert_file, key_file = authority.issue("server")
    environment = {
        "GOQUEUE_AUTH_ENABLED": "true",
        "GOQUEUE_AUTH_SUPER_USERS": "spark",
        "GOQUEUE_AUTH_CERTIFICATE_RULES": "RULE:^CN=([^,]+).*$/$1/",
        "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
        "GOQUEUE_TLS_ENABLED": "true",
        "GOQUEUE_TLS_CERT_FILE": str(cert_file),
        "GOQUEUE_TLS_KEY_FILE": str(key_file),
        "GOQUEUE_TLS_CA_FILE": str(authority.ca_file),
        "GOQUEUE_TLS_CLIENT_AUTH": "verify",
    }
    made = make_server(tmp_path_factory.mktemp("secured") / "data", environment=environment)
    made.start()
    own_cert, own_key = authority.issue("spark")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": made.kafka_address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.ca_file),
            "ssl.certificate.location": str(own_cert),
            "ssl.key.location": str(own_key),
        }
    )
    for number in range(MESSAGES):
        producer.produce(TOPIC, str(number))
    try:
        assert producer.flush(60) == 0
        yield made
    finally:
        made.close()


def read(
    spark: SparkSession, server: ServerProcess, authority: Authority, **options: Any
) -> set[int]:
    """A batch, which the driver plans and tasks in other processes fetch."""
    reader = spark.read.format("goqueue").options(
        **{
            "bootstrap.servers": server.kafka_address,
            "subscribe": TOPIC,
            "kafka.default.api.timeout.ms": "60000",
            "kafka.ssl.ca.location": str(authority.ca_file),
            **{name.replace("__", "."): str(value) for name, value in options.items()},
        }
    )
    return {int(bytes(row.value)) for row in reader.load().collect()}


def test_spark_reads_with_an_api_key(
    spark: SparkSession, server: ServerProcess, authority: Authority
) -> None:
    key = {"kafka__security__protocol": "SASL_SSL", "kafka__sasl__api__key": ROOT_KEY}
    assert read(spark, server, authority, **key) == set(range(MESSAGES))
    with pytest.raises(Exception, match=r"login|uthentication") as caught:
        read(spark, server, authority, **(key | {"kafka__sasl__api__key": "gq_guess-of-a-key"}))
    assert "gq_guess-of-a-key" not in str(caught.value)


def test_spark_reads_with_a_client_certificate(
    spark: SparkSession, server: ServerProcess, authority: Authority
) -> None:
    cert_file, key_file = authority.issue("spark")
    own = {
        "kafka__security__protocol": "SSL",
        "kafka__ssl__certificate__location": cert_file,
        "kafka__ssl__key__location": key_file,
    }
    assert read(spark, server, authority, **own) == set(range(MESSAGES))
    cert_file, key_file = authority.issue("stranger")
    own |= {
        "kafka__ssl__certificate__location": cert_file,
        "kafka__ssl__key__location": key_file,
    }
    with pytest.raises(Exception, match="orders"):
        read(spark, server, authority, **own)

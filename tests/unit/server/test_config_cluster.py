"""The settings of a cluster: what follows from a list of peers, and what is wrong with one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from goqueue.server.config_cluster_checks import is_private
from goqueue.server.config_kinds import Address
from unit.server.config_cases import load, problems_of

PEERS = "127.0.0.1:7000,127.0.0.1:7010,127.0.0.1:7020"
FAR = "h1:7000,h2:7000,h3:7000"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret = Path("secret")
    secret.write_text("not to be guessed at all\n")
    secret.chmod(0o600)


def cluster(peers: str = PEERS, *more: str) -> list[str]:
    return ["--cluster-peers", peers, "--cluster-secret-file", "secret", *more]


def test_without_peers_there_is_no_cluster() -> None:
    config = load()
    assert not config.cluster.enabled
    assert config.topics.replication_factor == 1
    assert config.topics.min_insync_replicas == 1


@pytest.mark.parametrize(
    ("flags", "environment", "file"),
    [
        (cluster(), {}, None),
        (
            [],
            {"GOQUEUE_CLUSTER_PEERS": PEERS, "GOQUEUE_CLUSTER_SECRET_FILE": "secret"},
            None,
        ),
        ([], {}, f"cluster: {{peers: [{PEERS}], secretFile: secret}}"),
        (["--cluster-enabled", *cluster()], {"GOQUEUE_CLUSTER_NAME": "goqueue"}, None),
    ],
)
def test_peers_by_flag_environment_or_file_make_a_cluster(
    flags: list[str], environment: dict[str, str], file: str | None
) -> None:
    config = load(["--node-id", "node-2", *flags], environment, file)
    assert config.cluster.enabled
    assert config.broker_id == 2
    assert config.cluster.addresses[2] == Address("127.0.0.1", 7020)


def test_peers_of_a_cluster_that_is_switched_off_are_of_no_consequence() -> None:
    config = load(cluster("h1:7000,h2", "--no-cluster-enabled"))
    assert not config.cluster.enabled
    assert config.topics.replication_factor == 1


@pytest.mark.parametrize(
    ("count", "replicas", "in_sync"), [(1, 1, 1), (3, 3, 2), (5, 3, 2), (7, 3, 2)]
)
def test_replicas_follow_from_the_number_of_nodes(count: int, replicas: int, in_sync: int) -> None:
    peers = ",".join(f"127.0.0.1:{7000 + 10 * n}" for n in range(count))
    topics = load(cluster(peers)).topics
    assert (topics.replication_factor, topics.min_insync_replicas) == (replicas, in_sync)


def test_fewer_replicas_need_fewer_in_sync_and_what_was_given_stays() -> None:
    assert load(cluster(PEERS, "--topics-replication-factor=2")).topics.min_insync_replicas == 1
    given = load(cluster(PEERS, "--topics-min-insync-replicas=3")).topics
    assert (given.replication_factor, given.min_insync_replicas) == (3, 3)


@pytest.mark.parametrize(
    ("flags", "listens"),
    [
        (["--node-id", "node-3"], "127.0.0.1:7020"),
        (["--node-id", "alpha", "--broker-id", "2"], "127.0.0.1:7010"),
        (["--node-id", "node-2", "--listeners-internal", ":7010"], "0.0.0.0:7010"),
        (
            [
                "--node-id=node-2",
                "--listeners-internal=10.0.0.7:7010",
                "--cluster-advertise=127.0.0.1:7010",
            ],
            "10.0.0.7:7010",
        ),
    ],
)
def test_a_node_listens_where_the_list_says_unless_it_is_told_otherwise(
    flags: list[str], listens: str
) -> None:
    config = load(cluster(PEERS, "--cluster-allow-unencrypted", *flags))
    assert str(config.listeners.internal) == listens


def problems(*flags: str, peers: str = PEERS) -> list[tuple[str, str, str]]:
    found = problems_of(cluster(peers, *flags))
    return [(each.setting, each.found, each.expected) for each in found]


def test_a_list_of_peers_with_three_mistakes_tells_all_three() -> None:
    peers = "localhost,localhost:7010,localhost:7010,localhost:65534"
    found = problems("--node-id=node-2", peers=peers)
    assert [(setting, what) for setting, what, _ in found] == [
        ("cluster.peers", "'localhost'"),
        ("cluster.peers", "localhost:7010 2 times"),
        ("cluster.peers", "'localhost:65534'"),
        ("cluster.peers", "4 nodes"),
    ]


@pytest.mark.parametrize(
    ("flags", "peers", "setting", "expected"),
    [
        (["--node-id=node-4"], PEERS, "broker.node_id", "ends in this node's place"),
        (["--node-id=alpha"], PEERS, "broker.node_id", "ends in this node's place"),
        (["--broker-id=0"], PEERS, "broker.id", "place in cluster.peers, 1-3"),
        (["--internal-port=7005"], PEERS, "listeners.internal", "127.0.0.1:7000, which is"),
        (["--listeners-internal=:7010"], PEERS, "listeners.internal", "the port of 127.0.0.1:7000"),
        (["--cluster-advertise=h:7000"], PEERS, "cluster.advertise", "127.0.0.1:7000, which is"),
        ([], "127.0.0.1:7000,127.0.0.1:7010", "cluster.peers", "odd number of nodes"),
        ([], ",".join(f"127.0.0.1:{p}" for p in range(7000, 7090, 10)), "cluster.peers", "up to 7"),
        ([], "127.0.0.1:7000,127.0.0.1:7002,127.0.0.1:7010", "cluster.peers", "at least 3 apart"),
        (["--kafka-port=7002"], PEERS, "listeners.kafka", "they use 7000 to 7002"),
        (["--topics-replication-factor=4"], PEERS, "topics.replication_factor", "at most 3"),
        (
            ["--topics-min-insync-replicas=4"],
            PEERS,
            "topics.min_insync_replicas",
            "at most topics.replication_factor, 3",
        ),
        (["--cluster-etcd-binary=nowhere"], PEERS, "cluster.etcd_binary", "can be executed"),
        ([], FAR, "cluster.tls_enabled", "cluster.allow_unencrypted does without"),
        (
            ["--listeners-internal=:7000"],
            PEERS,
            "cluster.tls_enabled",
            "cluster.allow_unencrypted does without",
        ),
    ],
)  # fmt: skip
def test_a_node_that_does_not_fit_its_list_is_refused(
    flags: list[str], peers: str, setting: str, expected: str
) -> None:
    found = problems(*flags, peers=peers)
    assert setting in {name for name, _, _ in found}
    assert expected in " ".join(text for name, _, text in found if name == setting)


def test_nodes_on_several_machines_need_certificates_or_a_word() -> None:
    assert problems("--cluster-allow-unencrypted", peers=FAR) == []
    missing = problems("--cluster-tls-enabled", "--cluster-tls-ca-file=nowhere", peers=FAR)
    assert [setting for setting, _, _ in missing] == [
        "cluster.tls_cert_file",
        "cluster.tls_key_file",
        "cluster.tls_ca_file",
    ]
    Path("file.pem").write_text("")
    files = [f"--cluster-tls-{what}-file=file.pem" for what in ("cert", "key", "ca")]
    assert problems("--cluster-tls-enabled", *files, peers=FAR) == []


def test_a_cluster_needs_a_list_of_peers() -> None:
    (problem,) = problems_of(["--cluster-enabled", "--cluster-secret-file=secret"])
    assert problem.setting == "cluster.peers"
    assert "every node" in problem.expected


@pytest.mark.parametrize(
    ("owner", "mode", "private"),
    [
        (65532, 0o600, True),
        (65532, 0o640, False),
        (0, 0o440, True),
        (0, 0o460, False),
        (0, 0o444, False),
    ],
)
def test_a_secret_of_roots_may_be_readable_by_the_group_of_the_process(
    owner: int, mode: int, private: bool
) -> None:
    status = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 65532, 0, 0, 0, 0))
    assert is_private(status, user=65532) is private
    assert is_private(status, user=0) is (mode == 0o600)


@pytest.mark.parametrize(
    ("name", "text", "mode", "expected"),
    [
        ("secret", "long enough for a secret", 0o640, "only its owner can read: chmod 600"),
        ("secret", "short", 0o600, "16 to 4096 characters"),
        ("nowhere", None, 0, "exists and can be read"),
    ],
)
def test_a_secret_that_is_missing_readable_by_others_or_short_is_refused(
    name: str, text: str | None, mode: int, expected: str
) -> None:
    if text is not None:
        Path(name).write_text(text)
        Path(name).chmod(mode)
    (problem,) = problems_of(["--cluster-peers", PEERS, "--cluster-secret-file", name])
    assert problem.setting == "cluster.secret_file"
    assert expected in problem.expected
    assert "long enough" not in str(problem)


def test_a_cluster_without_a_secret_is_refused() -> None:
    (problem,) = problems_of(["--cluster-peers", PEERS])
    assert problem.setting == "cluster.secret_file"

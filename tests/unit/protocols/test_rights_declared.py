"""Every route, API and method names the right that it needs, by fields that its requests have."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.protocols.grpc.places import PLACES
from goqueue.protocols.grpc.rights import RIGHTS, Needs as GrpcNeeds
from goqueue.protocols.http import routes as http_routes
from goqueue.protocols.http.api.endpoint import Endpoint
from goqueue.protocols.http.api.rights import Needs as HttpNeeds
from goqueue.protocols.http.api.route import Route, routes_of
from goqueue.protocols.kafka import families, node_families
from goqueue.protocols.kafka.internal import (
    backup_part,
    batches,
    find_producers,
    grpc_calls,
    handover,
    hello,
    log_ends,
    partition_figures,
    replica_fetch,
    settle_receipts,
    state_applied,
    watch_sources,
)
from goqueue.protocols.kafka.registry import ApiKey, ApiSpec, declared_specs
from goqueue.protocols.kafka.rights import ANYONE, NODES, Needs as KafkaNeeds
from goqueue.protocols.kafka.served import SERVED
from goqueue.protocols.kafka.share import families as share_families, node_turns
from goqueue.server.rights_reference import reference
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rights.md"
OF_NODES = (
    backup_part,
    batches,
    find_producers,
    grpc_calls,
    handover,
    log_ends,
    node_turns,
    partition_figures,
    replica_fetch,
    settle_receipts,
    state_applied,
    watch_sources,
)


def specs_in(*modules: object) -> list[ApiSpec]:
    return [
        spec
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        for spec in declared_specs(kind)
    ]


def endpoints() -> list[tuple[Route, object]]:
    return [
        (declared, function)
        for family in vars(http_routes).values()
        if isinstance(family, type)
        for function in vars(family).values()
        for declared in routes_of(function)
    ]


def test_every_api_of_kafkas_protocol_names_a_right() -> None:
    specs = {spec.key: spec for spec in specs_in(families, share_families)}
    assert set(SERVED) - {ApiKey.API_VERSIONS} <= set(specs)
    for key, spec in specs.items():
        assert isinstance(spec.right, KafkaNeeds), key
        assert list(spec.right.rows()), key
    unguarded = {key for key, spec in specs.items() if spec.right is ANYONE}
    assert unguarded == {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER,
    }


def test_every_api_between_nodes_is_for_nodes_alone() -> None:
    for spec in specs_in(*OF_NODES):
        assert spec.right is NODES, spec.key
    (greeting,) = specs_in(hello)
    assert greeting.key is ApiKey.HELLO
    assert node_families.__name__.endswith("node_families")


def test_every_route_names_a_right_by_fields_that_it_has() -> None:
    found = endpoints()
    assert len(found) > 150
    for declared, function in found:
        assert isinstance(declared.right, HttpNeeds), declared.path
        declared.right.check(Endpoint(declared, function).types)  # type: ignore[arg-type]


def test_a_route_without_a_right_cannot_be_declared() -> None:
    with pytest.raises(TypeError):
        Route("GET", "/", "tag")  # type: ignore[call-arg]


def test_every_method_of_grpc_names_a_right_by_fields_that_it_has() -> None:
    assert set(RIGHTS) == set(PLACES)
    for service in pb.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            needs = RIGHTS[f"/{service.full_name}/{method.name}"]
            assert isinstance(needs, GrpcNeeds)
            needs.check(getattr(pb, method.input_type.name))


def test_the_page_of_rights_is_current() -> None:
    hint = "run: .venv/bin/python -m goqueue.server.rights_reference > docs/reference/rights.md"
    assert PAGE.read_text(encoding="utf-8") == reference(), hint

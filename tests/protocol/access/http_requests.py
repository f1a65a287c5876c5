"""One request for each route: what is asked for exists where that takes nothing but a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.guarded import GROUP, ID, ROOT_KEY, TOPIC

if TYPE_CHECKING:
    from goqueue.protocols.http.api.route import Route
    from goqueue.transactions.messages import Identity

PATHS = {
    "{topic}": TOPIC,
    "{group}": GROUP,
    "{partition}": "0",
    "{offset}": "0",
    "{subject}": f"{TOPIC}-value",
    "{version}": "1",
    "{guid}": "89791762-2336-4186-9674-299b90a802e2",
    "{name}": "revenue",
    "{page}": "index.html",
    "{user}": "somebody",
    "{role}": "auditor",
}
_IDS = {"/traces/{id}": "0" * 32}
_SCHEMA = {"schema": '{"type": "string"}', "schemaType": "JSON"}
_PRODUCER = {"producer_id": -7, "epoch": 0}
_MEMBER = {"member_id": "m", "generation": 1}
_RECEIPT = f"{TOPIC}:0:0:1:{'0' * 16}"
_BODIES: dict[str, Any] = {
    "POST /topics": {"name": "invoices"},
    "PATCH /topics/{topic}": {"settings": {"retention.ms": "1000000"}},
    "PUT /topics/{topic}": {"settings": {}},
    "POST /topics/{topic}/partitions": {"count": 4},
    "POST /admin/topics/{topic}/partitions": {"count": 4},
    "POST /topics/{topic}/messages": {"messages": [{"value": "x"}]},
    "PUT /groups/{group}/settings": {"max_deliveries": 3},
    "POST /groups/{group}/join": {"topics": [TOPIC]},
    "POST /groups/{group}/join/cooperative": {"topics": [TOPIC]},
    "POST /groups/{group}/offsets": {"offsets": {TOPIC: {"0": 0}}, "member_id": "m"},
    "POST /groups/{group}/offsets/reset": {"topic": TOPIC, "strategy": "earliest"},
    "POST /producers/init": {"transactional_id": ID},
    "POST /producers/{producer_id}/heartbeat": {"epoch": 0, "transactional_id": ID},
    "POST /transactions/add-partition": {**_PRODUCER, "topic": TOPIC, "partition": 0},
    "POST /transactions/publish": {**_PRODUCER, "topic": TOPIC, "value": "x"},
    "POST /transactions/offsets": {**_PRODUCER, "group": GROUP, "offsets": {TOPIC: {"0": 0}}},
    "POST /transactions/commit-together": {
        "series": ID,
        "number": 1,
        "members": [{"transactional_id": f"{ID}::1", "producer_id": 1, "epoch": 0}],
    },
    "POST /transactions/abort-together": {"series": ID, "number": 1},
    "POST /transactions/abort": {"transactional_id": ID},
    "POST /topics/{topic}/dlq/delete": {"all": True},
    "POST /topics/{topic}/redriven/{partition}": {"ranges": [[0, 1]]},
    "PUT /pipelines/{name}": {
        "state": "running",
        "queries": [{"name": "q", "sources": [TOPIC]}],
    },
    "POST /admin/backup": {"destination": "/proc/nowhere"},
    "POST /admin/backup/prune": {"destination": "/proc/nowhere", "keep": 7},
    "POST /admin/backup/{id}/verify": {"destination": "/proc/nowhere"},
    "POST /admin/backup/{id}/restore": {"destination": "/proc/nowhere"},
    "PUT /admin/backup/schedule": {"destination": "/proc/nowhere"},
    "POST /admin/webhooks": {"url": "http://169.254.169.254/"},
    "PATCH /admin/webhooks/{id}": {"description": "chat"},
    "POST /admin/webhooks/{id}/redeliver": {},
    "POST /admin/acls": {
        "principal": "User:somebody",
        "resource_type": "topic",
        "resource_name": TOPIC,
        "operations": ["read"],
        "effect": "allow",
    },
    "POST /session": {"key": ROOT_KEY},
    "POST /admin/keys": {"name": "made", "roles": ["readonly"]},
    "PUT /admin/users/{user}": {"password": "long-enough-1"},
    "PUT /admin/users/{user}/roles": {"roles": ["readonly"]},
    "PUT /admin/roles/{role}": {"permissions": ["topic:list"]},
    "POST /admin/tenants": {"id": "acme", "name": "Acme"},
    "POST /admin/tenants/{id}/suspend": {"reason": "unpaid"},
    "PUT /config": {"compatibility": "FULL"},
    "PUT /config/{subject}": {"compatibility": "FULL"},
    "PUT /mode": {"mode": "READWRITE"},
    "PUT /mode/{subject}": {"mode": "READWRITE"},
}
_QUERIES = {
    "GET /admin/backup": "?destination=/proc/nowhere",
    "GET /admin/backup/{id}": "?destination=/proc/nowhere",
    "DELETE /admin/backup/{id}": "?destination=/proc/nowhere",
    "GET /groups/{group}/poll": "?member_id=m&generation=1&timeout=10ms",
    "DELETE /topics/{topic}/messages": "?confirm=true",
    "DELETE /topics/{topic}/dlq": "?confirm=true",
}


def name_of(route: Route) -> str:
    """How the table calls a route."""
    return f"{route.method} {route.path}"


def request_of(route: Route, producer: Identity) -> tuple[str, Any]:
    """The target and the body of a request; `producer` has the transactional id `ID`."""
    name, path = name_of(route), route.path.replace("{producer_id}", str(producer.producer_id))
    path = path.replace("{id}", _IDS.get(route.path, "1"))
    for field, value in PATHS.items():
        path = path.replace(field, value)
    body = _body(name)
    if isinstance(body, dict) and body.get("producer_id") == _PRODUCER["producer_id"]:
        body = {**body, "producer_id": producer.producer_id, "epoch": producer.epoch}
    return path + _QUERIES.get(name, ""), body


def _body(name: str) -> Any:
    method, path = name.split(" ")
    bare = f"{method} {path.removeprefix('/schemas') or path}"
    if bare in _BODIES:
        return _BODIES[bare]
    if name in _BODIES:
        return _BODIES[name]
    if "subjects/{subject}" in path and method == "POST":
        return _SCHEMA
    if path.startswith("/messages/"):
        shown: dict[str, Any] = {"receipt_handle": _RECEIPT, "group": GROUP}
        if path.endswith("/batch"):
            shown = {"receipt_handles": [_RECEIPT], "group": GROUP}
        more = {"reject": {"reason": "bad"}, "visibility": {"extension": "10s"}}
        return {**shown, **more.get(path.split("/")[2], {})}
    if path.startswith("/transactions/") and method == "POST":
        return _PRODUCER
    if path.startswith("/groups/") and method == "POST":
        return _MEMBER
    return {} if method in {"POST", "PUT", "PATCH"} else None

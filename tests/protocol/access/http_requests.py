"""One request for each route, about things that exist or about such that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.guarded import ROOT_KEY

if TYPE_CHECKING:
    from goqueue.protocols.http.api.route import Route
    from support.guarded import Things

_SCHEMA = {"schema": '{"type": "string"}', "schemaType": "JSON"}
_NOWHERE = {"destination": "/proc/nowhere"}


def _path(route: Route, things: Things) -> str:
    ids = {
        "/traces/{id}": things.trace,
        "/redrives/{id}": things.redrive,
        "/admin/webhooks": things.webhook,
        "/admin/tenants": things.tenant,
        "/schemas/ids": things.schema,
    }
    fields = {
        "topic": things.topic,
        "group": things.group,
        "partition": 0,
        "offset": things.delayed if "/delayed/" in route.path else 0,
        "subject": f"{things.topic}-value",
        "version": 1,
        "guid": things.guid,
        "name": things.pipeline,
        "page": "index.html",
        "user": "somebody",
        "role": "auditor",
        "producer_id": things.producer.producer_id,
        "id": next((found for start, found in ids.items() if route.path.startswith(start)), 1),
    }
    return route.path.format(**fields)


def _bodies(things: Things) -> dict[str, Any]:
    topic, group, name = things.topic, things.group, things.transactional_id
    producer = {"producer_id": things.producer.producer_id, "epoch": things.producer.epoch}
    member = {"transactional_id": f"{name}::1", "producer_id": 1, "epoch": 0}
    acl = {"principal": "User:somebody", "resource_type": "topic", "resource_name": topic}
    return {
        "POST /topics": {"name": f"{topic}-made"},
        "PATCH /topics/{topic}": {"settings": {"retention.ms": "1000000"}},
        "PUT /topics/{topic}": {"settings": {}},
        "POST /topics/{topic}/partitions": {"count": 4},
        "POST /admin/topics/{topic}/partitions": {"count": 4},
        "POST /topics/{topic}/messages": {"messages": [{"value": "x"}]},
        "PUT /groups/{group}/settings": {"max_deliveries": 3},
        "POST /groups/{group}/join": {"topics": [topic]},
        "POST /groups/{group}/join/cooperative": {"topics": [topic]},
        "POST /groups/{group}/offsets": {"offsets": {topic: {"0": 0}}, "member_id": "m"},
        "POST /groups/{group}/offsets/reset": {"topic": topic, "strategy": "earliest"},
        "POST /producers/init": {"transactional_id": name},
        "POST /producers/{producer_id}/heartbeat": {
            "epoch": things.producer.epoch,
            "transactional_id": name,
        },
        "POST /transactions/begin": producer,
        "POST /transactions/commit": producer,
        "POST /transactions/add-partition": {**producer, "topic": topic, "partition": 0},
        "POST /transactions/publish": {**producer, "topic": topic, "value": "x"},
        "POST /transactions/offsets": {**producer, "group": group, "offsets": {topic: {"0": 0}}},
        "POST /transactions/commit-together": {"series": name, "number": 1, "members": [member]},
        "POST /transactions/abort-together": {"series": name, "number": 1},
        "POST /transactions/abort": {"transactional_id": name},
        "POST /topics/{topic}/dlq/delete": {"all": True},
        "POST /topics/{topic}/redriven/{partition}": {"ranges": [[0, 1]]},
        "PUT /pipelines/{name}": {
            "state": "running",
            "queries": [{"name": "q", "sources": [topic]}],
        },
        "POST /admin/backup": _NOWHERE,
        "POST /admin/backup/prune": {**_NOWHERE, "keep": 7},
        "POST /admin/backup/{id}/verify": _NOWHERE,
        "POST /admin/backup/{id}/restore": _NOWHERE,
        "PUT /admin/backup/schedule": _NOWHERE,
        "POST /admin/webhooks": {"url": "http://169.254.169.254/"},
        "PATCH /admin/webhooks/{id}": {"description": "chat"},
        "POST /admin/webhooks/{id}/redeliver": {},
        "POST /admin/acls": {**acl, "operations": ["read"], "effect": "allow"},
        "POST /session": {"key": ROOT_KEY},
        "POST /admin/keys": {"name": "made", "roles": ["readonly"]},
        "PUT /admin/users/{user}": {"password": "long-enough-1"},
        "PUT /admin/users/{user}/roles": {"roles": ["readonly"]},
        "PUT /admin/roles/{role}": {"permissions": ["topic:list"]},
        "POST /admin/tenants": {"id": "made", "name": "Made"},
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


def request_of(route: Route, things: Things) -> tuple[str, Any]:
    """The target and the body of a request."""
    name = name_of(route)
    return _path(route, things) + _QUERIES.get(name, ""), _body(name, things)


def _body(name: str, things: Things) -> Any:
    method, path = name.split(" ")
    bodies = _bodies(things)
    bare = f"{method} {path.removeprefix('/schemas') or path}"
    if bare in bodies:
        return bodies[bare]
    if name in bodies:
        return bodies[name]
    if "subjects/{subject}" in path and method == "POST":
        return _SCHEMA
    if path.startswith("/messages/"):
        shown: dict[str, Any] = {"receipt_handle": things.receipt, "group": things.group}
        if path.endswith("/batch"):
            shown = {"receipt_handles": [things.receipt], "group": things.group}
        more = {"reject": {"reason": "bad"}, "visibility": {"extension": "10s"}}
        return {**shown, **more.get(path.split("/")[2], {})}
    if path.startswith("/groups/") and method == "POST":
        return {"member_id": "m", "generation": 1}
    return {} if method in {"POST", "PUT", "PATCH"} else None

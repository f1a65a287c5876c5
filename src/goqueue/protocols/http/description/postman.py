"""A Postman collection out of the OpenAPI document: one folder a tag, one request an operation."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode

_SCHEMA: Final = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
DEFAULT_URL: Final = "http://127.0.0.1:8080"


def collection(document: dict[str, Any]) -> dict[str, Any]:
    """Every operation of the document, with its examples filled in."""
    folders: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            folders[operation["tags"][0]].append(_item(method.upper(), path, operation))
    described = {tag["name"]: tag["description"] for tag in document["tags"]}
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "schema": _SCHEMA,
        },
        "variable": [{"key": "baseUrl", "value": DEFAULT_URL}],
        "item": [
            {"name": name, "description": described[name], "item": items}
            for name, items in folders.items()
        ],
    }


def _item(method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = {
        "method": method,
        "header": [],
        "url": _url(path, operation.get("parameters", [])),
        "description": operation.get("description", operation["summary"]),
    }
    if "requestBody" in operation:
        ((media_type, media),) = operation["requestBody"]["content"].items()
        request["header"] = [{"key": "Content-Type", "value": media_type}]
        request["body"] = {
            "mode": "raw",
            "raw": json.dumps(media["example"], indent=2, ensure_ascii=False),
            "options": {"raw": {"language": "json"}},
        }
    return {"name": operation["summary"], "request": request}


def _url(path: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    steps = [f":{s[1:-1]}" if s.startswith("{") else s for s in path.strip("/").split("/")]
    query = [
        {
            "key": each["name"],
            "value": _text(each["schema"]),
            "description": each.get("description", ""),
            "disabled": not each["required"],
        }
        for each in parameters
        if each["in"] == "query"
    ]
    enabled = [(each["key"], each["value"]) for each in query if not each["disabled"]]
    raw = "{{baseUrl}}/" + "/".join(steps) + (f"?{urlencode(enabled)}" if enabled else "")
    return {
        "raw": raw,
        "host": ["{{baseUrl}}"],
        "path": steps,
        "query": query,
        "variable": [
            {"key": each["name"], "value": _text(each["schema"])}
            for each in parameters
            if each["in"] == "path"
        ],
    }


def _text(schema: dict[str, Any]) -> str:
    found = (schema.get("examples") or [schema.get("default", "")])[0]
    return str(found).lower() if isinstance(found, bool) else str(found)

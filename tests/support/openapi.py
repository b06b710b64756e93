"""Checks the requests that our clients send against the OpenAPI document of the server that they are meant for.

    with openapi.checked_requests(documents) as sent:
        ...                                     # what is sent meanwhile is recorded, and checked at the end

A request must match an operation of the document, with known query parameters, none of the required ones missing, their values of
the declared type, and a JSON body that satisfies the operation's schema and has no field that the schema does not know.
"""

import functools
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema

from perago.http import client
from perago.http.fetch import fetch
from perago.http.request import Origin

Json = Mapping[str, Any]
_JSON = "application/json"
_ANY_OBJECT = {"type": "object"}
"""How Conductor's document generator writes a Java `Object`, which may be any JSON value."""


@dataclass(frozen=True)
class SentRequest:
    method: str
    target: str
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


class ApiDocument:
    """One server's document; `base` is the path of its API in our requests, `prefix` what its own paths begin with."""

    def __init__(self, document: Json, base: str, prefix: str = "") -> None:
        self.base = base
        self._document = document
        self._prefix = prefix
        # A path without parameters wins over one with them, as in the servers.
        self._paths = sorted(document["paths"], key=lambda path: path.count("{"))

    def problems(self, request: SentRequest) -> list[str]:
        """What the document has against the request; none if it conforms."""
        parts = urlsplit(request.target)
        path = self._prefix + parts.path.removeprefix(self.base)
        method = request.method.lower()
        item = self._path_item(path, method)
        if item is None:
            return [f"{request}: no such operation"]
        operation = item[method]
        declared = [self._resolved(one) for one in [*item.get("parameters", ()), *operation.get("parameters", ())]]
        found = _query_problems({one["name"]: one for one in declared if one["in"] == "query"}, parse_qsl(parts.query, True))
        found += self._body_problems(operation.get("requestBody"), request.body)
        return [f"{request}: {problem}" for problem in found]

    def _path_item(self, path: str, method: str) -> Json | None:
        """The item of the first path that matches and has the method: two paths may differ in their parameter's name only."""
        for template in self._paths:
            item = self._document["paths"][template]
            if method in item and re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
                return item
        return None

    def _body_problems(self, declared: Json | None, body: bytes) -> list[str]:
        if declared is None:
            return ["a body, and the operation has none"] if body else []
        content = self._resolved(declared)["content"]
        if _JSON not in content or set(content) > {_JSON}:
            return []  # bytes of an object
        if not body:
            return ["no body"] if declared.get("required") else []
        schema = self._strict(content[_JSON]["schema"])
        if schema == {"type": "string"}:
            return []  # plain text, as Conductor takes it
        errors = jsonschema.Draft202012Validator(schema).iter_errors(json.loads(body))
        return [f"{error.json_path}: {error.message}" for error in errors]

    def _resolved(self, value: Json) -> Json:
        while "$ref" in value:
            value = functools.reduce(lambda found, key: found[key], value["$ref"].removeprefix("#/").split("/"), self._document)
        return value

    def _strict(self, schema: Any, depth: int = 12) -> Any:
        """References replaced, and no unknown fields; recursion ends in a schema that takes anything."""
        if isinstance(schema, Sequence) and not isinstance(schema, str):
            return [self._strict(item, depth) for item in schema]
        if not isinstance(schema, Mapping):
            return schema
        if not depth or schema == _ANY_OBJECT:
            return {}
        resolved = {key: self._strict(value, depth - 1) for key, value in self._resolved(schema).items()}
        if "properties" in resolved and "additionalProperties" not in resolved and "allOf" not in resolved:
            resolved["additionalProperties"] = False
        return resolved


def lakefs(url: str) -> ApiDocument:
    return ApiDocument(_read(f"{url}/openapi.json"), "/api/v1")


def conductor(url: str) -> ApiDocument:
    return ApiDocument(_read(f"{url.removesuffix('/api')}/api-docs"), "/api", "/api")


@functools.cache
def _read(url: str) -> Json:
    reply = fetch(url, timeout=60)
    assert reply.status == 200, f"{url} answered {reply.status}"
    return json.loads(reply.body)


@contextmanager
def checked_requests(*documents: ApiDocument) -> Generator[list[SentRequest]]:
    """Record what `HttpClient` sends in this process, and fail at the end if a request does not conform to its document."""
    sent: list[SentRequest] = []
    original = client.request_text

    def record(method: str, origin: Origin, target: str, headers: str, body: bytes = b"") -> bytes:
        sent.append(SentRequest(method, target, body))
        return original(method, origin, target, headers, body)

    with mock.patch.object(client, "request_text", record):
        yield sent
    problems = [problem for request in sent for problem in _problems(documents, request)]
    assert not problems, "\n".join(dict.fromkeys(problems))


def _problems(documents: Sequence[ApiDocument], request: SentRequest) -> list[str]:
    for document in documents:
        if request.target.startswith(f"{document.base}/"):
            return document.problems(request)
    return []  # a presigned link


def _query_problems(declared: Mapping[str, Json], given: Sequence[tuple[str, str]]) -> list[str]:
    found = [f"unknown query parameter {name}" for name, _ in given if name not in declared]
    names = {name for name, _ in given}
    found += [f"query parameter {name} is missing" for name, one in declared.items() if one.get("required") and name not in names]
    for name, value in given:
        kind = declared.get(name, {}).get("schema", {}).get("type")
        fits = {"integer": r"-?\d+", "boolean": "true|false"}.get(kind, ".*")
        if not re.fullmatch(fits, unquote(value), re.DOTALL):
            found.append(f"query parameter {name} is not of type {kind}: {value}")
    return found

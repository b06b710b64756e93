from collections.abc import Mapping
from typing import Any, cast

import pytest

from perago.conductor import port, registration
from perago.conductor.registration import FieldChange, Verdict
from perago.errors import ConductorRejected

WANTED: dict[str, Any] = {
    "name": "a.b",
    "retryCount": 3,
    "inputKeys": ["params"],
    "inputSchema": {"name": "a.b.input", "data": {"properties": {"n": {"type": "integer"}}}},
}


class Server:
    """A server with the two verbs of registration. It drops the fields `forgets`, as Conductor drops fields it does not know."""

    def __init__(self, held: Mapping[str, Any] | None = None, forgets: str = "") -> None:
        self.held = held
        self.forgets = forgets
        self.puts = 0

    def task_definition(self, task_type: str) -> Mapping[str, Any] | None:
        return self.held

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        self.puts += 1
        bookkeeping = {"createTime": 1, "rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 1, "inputTemplate": {}}
        self.held = {**bookkeeping, **{key: value for key, value in definition.items() if key != self.forgets}}


def register(server: Server, wanted: Mapping[str, Any]) -> registration.Registration:
    return registration.register(cast("port.Conductor", server), wanted)


def test_created_then_unchanged_without_another_write() -> None:
    server = Server()
    assert register(server, WANTED) == registration.Registration(WANTED["name"], Verdict.CREATED)
    assert register(server, WANTED).verdict is Verdict.UNCHANGED
    assert server.puts == 1


def test_updated_names_each_field_down_to_the_schema() -> None:
    server = Server()
    register(server, WANTED)
    schema = {"name": "a.b.input", "data": {"properties": {"n": {"type": "string"}, "m": {"type": "integer"}}}}
    changed = register(server, {**WANTED, "retryCount": 5, "inputSchema": schema})
    assert changed.verdict is Verdict.UPDATED
    assert changed.changes == (
        FieldChange("retryCount", 3, 5),
        FieldChange("inputSchema.data.properties.n.type", "integer", "string"),
        FieldChange("inputSchema.data.properties.m", None, {"type": "integer"}),
    )


@pytest.mark.parametrize(
    ("field", "value", "after"),
    [
        ("concurrentExecLimit", 4, None),
        ("rateLimitPerFrequency", 9, 0),
        ("description", "old", None),
        ("inputTemplate", {"a": 1}, None),
    ],
)
def test_a_field_that_is_no_longer_declared_is_a_change(field: str, value: object, after: object) -> None:
    held = {**WANTED, field: value, "createTime": 7, "backoffScaleFactor": 1}
    assert registration.differences(held, WANTED) == (FieldChange(field, value, after),)


def test_bookkeeping_and_defaults_of_the_server_are_no_change() -> None:
    held = {**WANTED, "createTime": 7, "updatedBy": "x", "rateLimitPerFrequency": 0, "rateLimitFrequencyInSeconds": 1}
    assert registration.differences(held, WANTED) == ()


def test_a_field_that_the_server_does_not_keep_is_an_error() -> None:
    with pytest.raises(ConductorRejected, match="serves other values for: retryCount"):
        register(Server(forgets="retryCount"), WANTED)

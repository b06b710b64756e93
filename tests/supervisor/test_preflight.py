"""Task definitions at the start of a worker: `perago start --register` checks what `perago register` checks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from perago import ipc
from perago.errors import ConductorRejected, RuntimeConfigError
from perago.in_memory.conductor import FakeConductor
from perago.model import TaskType
from perago.supervisor import preflight

TYPE = TaskType("type")
DEFINITION: dict[str, Any] = {"name": TYPE, "retryCount": 3, "inputKeys": ["params"]}
TASK = ipc.TaskFacts("module", TYPE, False, DEFINITION, 60.0, 15.0, 30.0)


class ForgetfulConductor(FakeConductor):
    """Drops a field of every definition, as Conductor does with fields that it does not know."""

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        super().put_task_definition({key: value for key, value in definition.items() if key != "retryCount"})


def test_register_creates_a_missing_definition() -> None:
    server = FakeConductor()
    assert preflight.require_definitions([TASK], server, register=True) == []
    assert server.task_definition(TYPE) == DEFINITION


def test_register_rejects_a_definition_that_the_server_does_not_keep() -> None:
    with pytest.raises(ConductorRejected, match="serves other values for: retryCount"):
        preflight.require_definitions([TASK], ForgetfulConductor(), register=True)


def test_register_removes_an_input_template() -> None:
    server = FakeConductor()
    server.put_task_definition({**DEFINITION, "inputTemplate": {"params": {"hidden": 1}}})
    assert preflight.require_definitions([TASK], server, register=True) == []
    assert not (server.task_definition(TYPE) or {}).get("inputTemplate")


def test_different_definition_is_a_warning_that_names_the_fields() -> None:
    server = FakeConductor()
    server.put_task_definition({**DEFINITION, "retryCount": 1, "inputTemplate": {"params": {"hidden": 1}}})
    (warning,) = preflight.require_definitions([TASK], server, register=False)
    assert warning == ("Conductor's definition of type differs from module in inputTemplate, retryCount; --register updates it")


def test_missing_definition_is_an_error_that_says_how_to_register() -> None:
    missing = replace(TASK, task_type="other", definition={**DEFINITION, "name": "other"})
    with pytest.raises(RuntimeConfigError, match="run `perago register module` or start with --register"):
        preflight.require_definitions([missing], FakeConductor(), register=False)

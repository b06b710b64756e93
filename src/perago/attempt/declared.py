"""A declaration as the spine wants it: what the author said comes in, an `attempt.port.Task` leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perago.attempt import port
from perago.declare import checks
from perago.declare.task import TaskDeclaration
from perago.model import Listing


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    declaration: TaskDeclaration

    @property
    def read_only(self) -> bool:
        return not self.declaration.publishes

    def accept(self, task_input: Mapping[str, Any]) -> port.Call:
        call = self.declaration.contract.parse_input(task_input)
        return port.Call(call.workspace, call.params)

    def check_before(self, listing: Listing) -> None:
        if self.declaration.workspace is not None:
            checks.enforce(self.declaration.workspace.pre, listing, "pre")

    def body(self, workspace: object, params: object) -> object:
        if self.declaration.workspace is None:
            return self.declaration.function(params)
        return self.declaration.function(workspace, params)

    def result(self, returned: object) -> Mapping[str, Any]:
        return self.declaration.contract.result_json(returned)

    def check_after(self, listing: Listing) -> None:
        if self.declaration.workspace is not None:
            checks.enforce(self.declaration.workspace.post, listing, "post")

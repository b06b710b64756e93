"""Takes one rule of the protocol out of Perago's own worker, in each of its processes: the one that WITHOUT_RULE names.

Python imports a module of this name at the start of every process that finds it on its path.
"""

import os
from typing import Any

from perago.attempt import publish, restore, staging, target_branch
from perago.protocol import decision


def nothing(*_: Any, **__: Any) -> None:
    """In place of what the rule requires."""


def unverified(_publication: Any, merged: Any, _staged: Any) -> Any:
    return merged


def removable(*_: Any) -> str:
    return "Conductor was not asked about the head"


RULES: dict[str, tuple[Any, str, Any]] = {
    "verify-abandoned": (decision, "_on_input", removable),
    "revoke": (target_branch.TargetBranch, "revoke", nothing),
    "verify": (publish.Publication, "_verify", unverified),
    "restore": (restore.Restoration, "restore", nothing),
    "clean-up": (staging.Staging, "_clean_up", nothing),
}
setattr(*RULES[os.environ["WITHOUT_RULE"]])

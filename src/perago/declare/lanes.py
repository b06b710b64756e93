"""The interface that the bodies of the built-in tasks get in place of a workspace. Tasks of authors cannot use it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from perago.model import WorkspaceRef

BUILT_IN_PACKAGE = "perago.builtin."
BUILT_IN_PREFIX = "perago."
"""Names of tasks that begin so are Perago's own."""


class Lanes(ABC):
    """Branches beside the target branch, one per lane of a fork."""

    @abstractmethod
    def fork(self, names: Sequence[str]) -> Mapping[str, WorkspaceRef]:
        """Create one branch per lane at the input commit; the workspace of each."""

    @abstractmethod
    def join(self, lanes: Mapping[str, WorkspaceRef]) -> None:
        """What these lanes changed becomes the change of this attempt."""

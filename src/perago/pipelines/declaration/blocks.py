"""The blocks of a pipeline function, and in which of them a result may be used."""

from dataclasses import dataclass, field
from enum import Enum

from perago.pipelines import graph


class BlockKind(Enum):
    PIPELINE = "pipeline"
    FORK = "fork"
    """Between the lanes: no step may stand here."""
    LANE = "lane"
    WHEN = "when"
    LOOP = "loop"


@dataclass(slots=True, eq=False)
class Block:
    """What a `with` statement encloses. Its nodes are appended as the function runs."""

    kind: BlockKind
    ref: str
    parent: "Block | None" = None
    nodes: list[graph.Node] = field(default_factory=list[graph.Node])
    closed: bool = False

    def inside(self, kind: BlockKind) -> "Block | None":
        """The nearest block of a kind that encloses this one, or this one itself."""
        block: Block | None = self
        while block is not None and block.kind is not kind:
            block = block.parent
        return block


def why_unavailable(home: Block, here: Block, *, leaves_block: bool) -> str | None:
    """Why a value that was made in `home` may be missing in `here`; None if it is there.

    `leaves_block` is False for values that exist in their own block only.
    """
    while (
        home.closed and home.kind in {BlockKind.LANE, BlockKind.LOOP, BlockKind.FORK} and home.parent is not None and leaves_block
    ):
        if home.kind is BlockKind.LANE and not home.parent.closed:
            return f"it runs in another lane of {home.ref}; use it after the fork"
        home = home.parent
    if not home.closed:
        return None if _encloses(home, here) else "it is not known here"
    if home.kind is BlockKind.WHEN:
        return f"it may not have run: it is inside flow.when ({home.ref}); use it inside that block"
    return f"it is only known inside its block ({home.ref})"


def _encloses(outer: Block, inner: Block) -> bool:
    block: Block | None = inner
    while block is not None:
        if block is outer:
            return True
        block = block.parent
    return False

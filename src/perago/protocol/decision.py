"""The publish decision: the target branch's state and the change come in, one plan leaves. Nothing else decides."""

from dataclasses import dataclass

from perago.model import CommitId


@dataclass(frozen=True, slots=True)
class Merge:
    """The target is where the input was taken: merge the staging branch into it."""


@dataclass(frozen=True, slots=True)
class Replace:
    """The target shows one abandoned publication on top of the input: relocate it to the staged commit."""

    abandoned: CommitId


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing changed and nothing has to: the output is the input."""


@dataclass(frozen=True, slots=True)
class MoveBack:
    """Nothing changed, but the target shows an abandoned publication: relocate it back to the input."""

    abandoned: CommitId


@dataclass(frozen=True, slots=True)
class Refuse:
    """The target is where no attempt with this input may touch it."""

    reason: str


Plan = Merge | Replace | Keep | MoveBack | Refuse


def decide(
    input_ref: CommitId, head: CommitId | None, head_parent: CommitId | None, *, change_is_empty: bool, read_only: bool
) -> Plan:
    """`head` is None where it was not read, which only a read-only task may do; `head_parent` is the head's first parent."""
    if read_only:
        return Keep()
    if head == input_ref:
        return Keep() if change_is_empty else Merge()
    if head is not None and head_parent == input_ref:
        return MoveBack(head) if change_is_empty else Replace(head)
    return Refuse(
        f"the target branch is at {head}, which is neither the input commit {input_ref} nor directly after it; "
        "start a new workflow from the branch's present head"
    )

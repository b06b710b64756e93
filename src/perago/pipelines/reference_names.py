"""Reference names of the tasks that the compiler adds around a node."""

from perago.pipelines import graph

RESERVED = frozenset({"workflow"})
"""Have a meaning of their own in Conductor's expressions."""


def begin(ref: str) -> str:
    """Before a fork or an each; the first task of a loop."""
    return f"{ref}_begin"


def tasks(ref: str) -> str:
    """Makes the list of tasks of an each that writes."""
    return f"{ref}_tasks"


def join(ref: str) -> str:
    """The JOIN of a fork or an each."""
    return f"{ref}_join"


def results(ref: str) -> str:
    """Puts the results of an each that writes in order."""
    return f"{ref}_results"


def end(ref: str) -> str:
    """After a fork, an each, a condition or an optional step."""
    return f"{ref}_end"


def lane_end(fork: str, lane_name: str) -> str:
    """The last task of a lane of a fork."""
    return f"{fork}_{lane_name}_end"


def lane(ref: str, index: int | str) -> str:
    """A step of an each."""
    return f"{ref}_{index}"


def helpers(node: graph.Node) -> frozenset[str]:
    """Every name that the compiler may need for a node, whether or not it does for this one."""
    match node:
        case graph.Fork():
            return frozenset(
                {begin(node.ref), join(node.ref), end(node.ref), *(lane_end(node.ref, one.name) for one in node.lanes)}
            )
        case graph.Each():
            makers = (begin, tasks, join, results, end)
        case graph.Repeat():
            makers = (begin,)
        case graph.When() | graph.Step():
            makers = (end,)
        case graph.Wait():
            makers = (begin,)
        case graph.Call() | graph.Human():
            makers = ()
    return frozenset(make(node.ref) for make in makers)

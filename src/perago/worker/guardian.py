"""A tiny process that outlives the supervisor by a moment, to kill what a killed supervisor left running.

Executors die with the supervisor by the kernel's hand; processes that a task body started do not. The guardian is told the
process group of each executor, and when its pipe closes it kills those that were not taken off its list.
"""

import contextlib
import subprocess

_SCRIPT = """
groups=
while read -r verb group; do
  rest=
  for known in $groups; do [ "$known" = "$group" ] || rest="$rest $known"; done
  groups=$rest
  [ "$verb" = add ] && groups="$groups $group"
done
for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null
exit 0
"""


class Guardian:
    def __init__(self) -> None:
        # A session of its own: a Ctrl-C in the terminal, or a kill of the supervisor's group, does not reach it.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, group: int) -> None:
        self._tell(f"add {group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"drop {group}\n")

    def close(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin is None:
            return
        # Where somebody killed it, the kernel's parent-death signal still ends the executors themselves.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

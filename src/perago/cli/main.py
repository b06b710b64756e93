"""The `perago` program: prints its version at once, and loads the command line for everything else."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Exit with the code of the command. After Ctrl-C, also while the program loads, without a traceback."""
    try:
        sys.exit(_run(sys.argv[1:] or ["--help"]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from perago import distribution  # noqa: PLC0415 - as below

        sys.stdout.write(f"{distribution.version()}\n")
        return 0
    from perago.cli import commands  # noqa: PLC0415 - takes longer than to print the version, and can be interrupted

    return commands.run(arguments)

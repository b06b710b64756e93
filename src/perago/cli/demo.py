"""`perago demo`: handed on to `demonstration` when the command runs."""


def demo() -> None:
    """Start both servers, show what they do together, and stop them."""
    from perago.cli import demonstration  # noqa: PLC0415 - the other commands start without it

    demonstration.run()

"""Objects of a commit by name: one, or those below a prefix."""

import itertools
from collections.abc import Iterator

from perago.lake.port import Lake, Ref
from perago.model import ObjectInfo, ObjectPath, Repository


def find(lake: Lake, repository: Repository, ref: Ref, path: ObjectPath) -> ObjectInfo | None:
    return next((info for info in lake.objects(repository, ref, path).objects if info.path == path), None)


def below(lake: Lake, repository: Repository, ref: Ref, prefix: str) -> Iterator[ObjectInfo]:
    """Every object whose path begins with `prefix`, page by page."""
    after: ObjectPath | None = None
    for number in itertools.count():
        if number and after is None:
            return
        page = lake.objects(repository, ref, prefix, after)
        yield from page.objects
        after = page.after

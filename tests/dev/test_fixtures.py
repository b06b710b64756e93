"""The fixtures that other tests use."""

import re
import urllib.request
from collections.abc import Callable

from perago.dev.stack import Endpoints


def test_servers_of_the_test_run_are_healthy(stack: Endpoints) -> None:
    with urllib.request.urlopen(stack.conductor_url.removesuffix("/api") + "/health", timeout=10) as answer:
        assert b'"healthy":true' in answer.read()
    with urllib.request.urlopen(f"{stack.lakefs_url}/_health", timeout=10) as answer:
        assert answer.status == 200


def test_fresh_names_are_unique_and_valid_for_repositories_and_branches(fresh_name: Callable[[], str]) -> None:
    names = [fresh_name() for _ in range(100)]
    assert len(set(names)) == 100
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{2,62}", name) for name in names)

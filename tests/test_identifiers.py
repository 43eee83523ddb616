"""The identifiers in a question: names to be matched letter for letter."""

import pytest

from serve.recall.analysis import identifiers
from store.text.mentions import mentions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("why does src/api/users.py import it", ["src/api/users.py"]),
        ("what is pool_size and loginHandler", ["pool_size", "loginHandler"]),
        ("ENOENT with --dry-run and -v", ["ENOENT", "--dry-run", "-v"]),
        ("since v1.2.3 or 2.0", ["v1.2.3", "2.0"]),
        ("fix #123, PROJ-44 and abc1234", ["#123", "PROJ-44", "abc1234"]),
        ("well-known words, 42 and e.g. dates", []),
        ("", []),
    ],
)
def test_identifiers(text: str, found: list[str]):
    assert list(identifiers(text, mentions(text))) == found

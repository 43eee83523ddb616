"""Our regular expressions against texts made to hurt them; `make torture` takes longer ones."""

import re
import signal
from pathlib import Path

import pytest
from torture.bait import baits
from torture.outcome import Scale, failures
from torture.patterns import attack

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGVTALRM"), reason="what hangs is broken off by a signal of POSIX"
)


def test_no_expression_takes_longer_than_its_text(tmp_path: Path):
    outcomes = list(attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[0].points > 3_000


@pytest.mark.parametrize(
    ("pattern", "again"),
    [(r"a\s*x", " "), (r"(?:ab)+c", "ab"), (r"<!--.*?-->", "<!--a"), (r"[\w.]+@x", "a")],
)
def test_the_bait_of_an_expression_is_what_it_repeats(pattern: str, again: str):
    assert any(again in bait.again for bait in baits(re.compile(pattern), 16))

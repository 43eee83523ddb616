"""No secret that was sent in by any door is in any file, though the server was killed."""

import sys

import pytest
from torture import leaks
from torture.outcome import Scale, failures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")


def test_no_file_holds_a_secret(tmp_path):
    outcomes = list(leaks.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[0].points >= 100

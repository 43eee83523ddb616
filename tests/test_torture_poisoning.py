"""No text of a tool, a page or an import gives an agent orders, or displaces a true one."""

from torture import poisoning
from torture.outcome import Scale, failures


def test_canaries_stay_where_they_are_labelled(tmp_path):
    outcomes = list(poisoning.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[0].points >= 25

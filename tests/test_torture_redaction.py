"""Secrets of every kind are removed in every context; lookalikes stay."""

from torture import redaction
from torture.outcome import Scale, failures
from torture.secret_kinds import CONTEXTS, KINDS


def test_secrets_go_and_ordinary_text_stays(tmp_path):
    outcomes = list(redaction.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert len(KINDS) >= 25 and len(CONTEXTS) >= 20
    assert outcomes[0].points == len(KINDS) * len(CONTEXTS)
    assert outcomes[-1].points >= 1_000

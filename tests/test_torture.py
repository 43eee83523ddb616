"""`make torture` reports its attempts, and fails on a loss or on too few observations."""

import pytest
from torture import run
from torture.outcome import Outcome, Scale


def ending(monkeypatch: pytest.MonkeyPatch, *outcomes: Outcome) -> int:
    monkeypatch.setattr(run, "_apart", lambda name, scale: list(outcomes))
    monkeypatch.setattr(run.roster, "NAMES", ("one",))
    return run.main([])


def test_the_table_names_what_was_tried_and_what_was_lost(monkeypatch, capsys):
    outcome = Outcome("killed while appending", 1_700, "calls")
    lost = Outcome("power cut", 20, "images", ("image 7: e3 is gone",))
    assert ending(monkeypatch, outcome) == 0
    assert "killed while appending     1,700  calls        0  held" in capsys.readouterr().out
    assert ending(monkeypatch, outcome, lost) == 1
    assert "image 7: e3 is gone" in capsys.readouterr().out


def test_a_control_that_loses_nothing_fails(monkeypatch, capsys):
    blind = Outcome("power cut, synchronous OFF", 20, "images", is_control=True)
    assert ending(monkeypatch, blind) == 1
    assert "BLIND" in capsys.readouterr().out


def test_fewer_points_than_promised_fail(monkeypatch, capsys):
    assert ending(monkeypatch, Outcome("killed", 5, "calls", floor=700)) == 1
    assert "TOO FEW, 700 wanted" in capsys.readouterr().out


def test_an_attack_that_breaks_off_is_no_success(tmp_path, monkeypatch):
    (outcome,) = run._apart("no such attack", Scale.FAST)
    assert not outcome.held

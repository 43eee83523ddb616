"""Whatever a language model answers, it leaks nothing, makes no rule and ends no job."""

import pytest
from torture import answers
from torture.outcome import Scale, failures


@pytest.mark.filterwarnings("default")  # what litellm's own values say of themselves in passing
def test_a_model_that_lies_does_no_harm(tmp_path):
    outcomes = list(answers.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[0].points >= 50 and outcomes[1].points >= 20

"""No answer of a language model leaks anything, makes a rule or ends a job."""

import pytest
from torture import answers
from torture.outcome import Scale, failures


@pytest.mark.filterwarnings("default")  # warnings about litellm's own values
def test_a_model_that_lies_does_no_harm(tmp_path):
    outcomes = list(answers.attack(tmp_path, Scale.FAST))
    assert failures(outcomes) == []
    assert outcomes[0].points >= 50 and outcomes[1].points >= 20

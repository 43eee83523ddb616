"""What a cosine of one model is worth."""

from collections.abc import Sequence

import numpy as np
import pytest

from store.embedders.lexical import LexicalEmbedder
from store.embedders.model_facts import PAIRS, Calibration, calibrate


def model(related: float, unrelated: float):
    """Return an `embed` under which pairs have one cosine, and all other texts another."""
    places = {text: number for number, pair in enumerate(PAIRS) for text in pair}
    same = np.full((2 * len(PAIRS), 2 * len(PAIRS)), unrelated)
    for number in range(len(PAIRS)):
        same[2 * number, 2 * number + 1] = same[2 * number + 1, 2 * number] = related
    np.fill_diagonal(same, 1.0)
    vectors = np.linalg.cholesky(same).astype(np.float32)

    def embed(texts: Sequence[str]) -> np.ndarray:
        sides = [places[text] * 2 + (text == PAIRS[places[text]][1]) for text in texts]
        return vectors[sides]

    return embed


@pytest.mark.parametrize(("related", "unrelated"), [(0.5, 0.05), (0.8, 0.6)])
def test_evidence_means_the_same_whatever_the_scale_of_a_model(related: float, unrelated: float):
    found = calibrate(model(related, unrelated))
    assert found.knows_meaning
    cosines = np.array([unrelated - 0.1, unrelated, related], np.float32)
    assert found.evidence(cosines).tolist() == pytest.approx([0.0, 0.0, 0.5], abs=1e-3)


def test_hashed_letters_know_no_meaning():
    found = calibrate(LexicalEmbedder().embed)
    assert found == Calibration()
    assert found.evidence(np.array([-0.2, 0.8], np.float32)).tolist() == pytest.approx([0.0, 0.2])

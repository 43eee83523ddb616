"""The value of a model's cosines as evidence."""

from collections.abc import Sequence

import numpy as np
import pytest

from store.embedders.lexical import LexicalEmbedder
from store.embedders.model_facts import PAIRS, Calibration, calibrate


def model(related: float, unrelated: float):
    """Return an `embed` whose pairs have one cosine, and all other texts another."""
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
    embed = model(related, unrelated)
    calibration = calibrate(embed, embed)
    assert calibration.knows_meaning
    cosines = np.array([unrelated - 0.1, unrelated, related], np.float32)
    assert calibration.evidence(cosines).tolist() == pytest.approx([0.0, 0.0, 0.5], abs=1e-3)


def test_hashed_letters_know_no_meaning():
    embed = LexicalEmbedder().embed
    calibration = calibrate(embed, embed)
    assert calibration == Calibration()
    assert calibration.evidence(np.array([-0.2, 0.8], np.float32)).tolist() == pytest.approx(
        [0.0, 0.2]
    )


@pytest.mark.parametrize(("scatter", "nothing"), [(0.005, 0.76), (0.025, 0.72)])
def test_unrelated_pairs_that_scatter_far_leave_room_below_them(scatter: float, nothing: float):
    signs = np.where(np.indices((len(PAIRS), len(PAIRS))).sum(axis=0) % 2, 1.0, -1.0)
    cosines = 0.76 + scatter * signs
    np.fill_diagonal(cosines, 0.82)
    calibration = calibrate(lambda _: cosines.T, lambda _: np.eye(len(PAIRS)))
    assert calibration.knows_meaning and calibration.unrelated == pytest.approx(nothing, abs=2e-3)
    assert calibration.related == 0.82
    usual = calibration.evidence(np.array([0.76], np.float32))
    assert usual.tolist() == pytest.approx([calibration.usual], abs=2e-2)
    # between unrelated and related, the evidence times `stretch` rises as with any model
    assert calibration.stretch * (0.5 - calibration.usual) == pytest.approx(0.5, abs=1e-3)


def test_a_cosine_is_found_again_by_its_evidence():
    calibration = Calibration(0.72, 0.82, knows_meaning=True)
    cosines = np.array([calibration.cosine(0.3), calibration.cosine(0.5)], np.float32)
    assert calibration.evidence(cosines).tolist() == pytest.approx([0.3, 0.5], abs=1e-4)

"""Who stands beside whom in a session."""

import numpy as np

from serve.recall.neighbours import siblings

# rows 0, 2, 4 are session 7 in the order 2, 0, 4; 1 and 3 are session 8; 5 is in none
SESSION = np.array([7, 8, 7, 8, 7, -1], np.int32)
AT = np.array([20, 10, 10, 11, 30, 10], np.int64)


def beside(*docs: int) -> list[int]:
    return siblings(np.array(docs, np.int64), SESSION, AT).tolist()


def test_neighbours_are_those_said_before_and_after():
    assert beside(0) == [2, 4]
    assert beside(2) == [0]


def test_another_session_is_no_neighbour():
    assert beside(3) == [1]
    assert beside(4, 1) == [0, 3]


def test_what_is_no_turn_has_none():
    assert beside(5) == beside() == []

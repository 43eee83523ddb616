"""
Repulsion: how masses in the plane push one another apart, as 1 / distance.

They do so down the slope of a potential that falls with the logarithm of the distance. Such a
potential is one bump for each octave, all of one height: the masses are counted on a grid, on one
half as fine, and so on; each count is blurred a little, and their sum is the potential. The pyramid
is that of Burt and Adelson (1983, https://doi.org/10.1109/TCOM.1983.1095851). It costs what the
grid costs, however many masses there are; what is nearer than a cell is not told apart.
"""

import numpy as np

from store.layout.graph import Floats, Ints

_MARGIN = 1.6  # sides of the grid for one of the masses: at its end it is less exact
_COARSEST = 4  # cells a side


def repulsion(x: Floats, y: Floats, mass: Floats, cells: int) -> tuple[Floats, Floats]:
    """Return the push along both axes on a unit of mass at each place, [n].

    `cells` is how many the grid has a side, a power of two.
    """
    side = max(float(np.ptp(x)), float(np.ptp(y)), 1e-9)
    scale = cells / (side * _MARGIN)
    column = (x - float(x.min())) * scale + cells * (1 - 1 / _MARGIN) / 2
    row = (y - float(y.min())) * scale + cells * (1 - 1 / _MARGIN) / 2
    corners = _corners(column, row, cells)
    count = np.zeros(cells * cells)
    for at, share in corners:
        count += np.bincount(at, mass * share, len(count))
    wide = np.pad(_potential(count.reshape(cells, cells)), 1, mode="edge")
    right = ((wide[1:-1, :-2] - wide[1:-1, 2:]) * (scale / 2)).ravel()
    down = ((wide[:-2, 1:-1] - wide[2:, 1:-1]) * (scale / 2)).ravel()
    push_x, push_y = np.zeros(len(x)), np.zeros(len(x))
    for at, share in corners:
        push_x += right[at] * share
        push_y += down[at] * share
    return push_x, push_y


def _corners(column: Floats, row: Floats, cells: int) -> list[tuple[Ints, Floats]]:
    """Return the four cells around each place and how much of it each one gets."""
    left, top = column.astype(np.int64), row.astype(np.int64)
    across, down = column - left, row - top
    first = top * cells + left
    return [
        (first, (1 - down) * (1 - across)),
        (first + 1, (1 - down) * across),
        (first + cells, down * (1 - across)),
        (first + cells + 1, down * across),
    ]


def _potential(count: Floats) -> Floats:
    """Return the potential of masses that were counted on a square grid."""
    total = _blurred(count)
    if len(count) <= _COARSEST:
        return total
    half = count[::2, ::2] + count[1::2, ::2] + count[::2, 1::2] + count[1::2, 1::2]
    return total + _doubled(_potential(half))


def _blurred(grid: Floats) -> Floats:
    """Return a grid blurred by 1 4 6 4 1 along both axes, each bump as high as its mass."""
    for _ in range(2):
        wide = np.pad(grid, ((2, 2), (0, 0)))
        near, far = wide[1:-3] + wide[3:-1], wide[:-4] + wide[4:]
        grid = (grid + near * (4 / 6) + far * (1 / 6)).T
    return grid


def _doubled(grid: Floats) -> Floats:
    """Return a grid twice as fine, with what lies between the old cells' middles."""
    for _ in range(2):
        wide = np.pad(grid, ((1, 1), (0, 0)), mode="edge")
        finer = np.empty((2 * len(grid), grid.shape[1]))
        finer[::2] = 0.75 * grid + 0.25 * wide[:-2]
        finer[1::2] = 0.75 * grid + 0.25 * wide[2:]
        grid = finer.T
    return grid

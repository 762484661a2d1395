"""
Do the searches agree?
======================

`AdaptivePAO` starts several kinds of swarms, again and again. Its result lists every search, and the plot shows when
each one moved and at which place it ended.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps


def wells(x: np.ndarray) -> np.ndarray:
    """Two wells along every axis, so eight minima, one of them the lowest."""
    return ((x**2 - 1) ** 2).sum(axis=-1) + 0.1 * x.sum(axis=-1)


result = ps.minimize(wells, [(-2, 2)] * 3, method="AdaptivePAO", vectorized=True, rng=1)
print(result)

# %%
# Each row of the table is a search. Searches at the same place have found the same minimum; place 1 is the best.
print(result.searches)

# %%
# Every place has a row, the best one at the top. Pale bars are searches that were given up, because they contracted
# around a value worse than that of an earlier search.
ps.plot.searches(result)
plt.show()

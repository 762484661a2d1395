"""Compile what tests want from numba. It is kept on disk, so no test waits for it, and no two workers do the same."""

from importlib.util import find_spec

import paoswarm as ps

BOX = [(-1.0, 2.0)] * 2


def main():
    import numba

    fun = numba.njit(lambda x: (x[0] - 0.3) ** 2 + x[1] ** 2)
    for options in ({}, {"method": "DensePAO"}, {"method": "ElementPAO"}, {"method": "PAO"}):
        ps.minimize(fun, BOX, engine="numba", maxfev=60, n_particles=10, rng=1, **options)
    ps.minimize(fun, BOX, method="PAO", engine=ps.engines.Numba("single"), maxfev=60, n_particles=10, rng=1)


if __name__ == "__main__" and find_spec("numba"):
    main()

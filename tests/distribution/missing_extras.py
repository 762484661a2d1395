"""Where an optional package is missing, an error names it and the command that installs it.

Run it where paoswarm is installed without extras.
"""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import paoswarm as ps
from paoswarm.cli.info import gathered

# Their users bring an object of the package with them, so it is there.
BROUGHT_ALONG = {"dask", "lmfit"}


def result():
    return ps.minimize(lambda x: (x**2).sum(), [(-1, 1)] * 2, method="PSO", maxiter=3, rng=1)


def compiled(engine):
    return ps.minimize(lambda x: x[0] ** 2, [(-1, 1)], method="PAO", engine=engine, maxiter=3, rng=1)


def posterior():
    return ps.sample(lambda x: -50 * (x**2).sum(), {"a": (-1, 1)}, n_effective=100, rng=1)


def study():
    with tempfile.TemporaryDirectory() as folder:
        ps.study.Study(problems=["sphere"], dims=[2], methods={"PSO": ps.classic.PSO()}, runs=2, generations=2).run(
            Path(folder)
        )


def send():
    with ProcessPoolExecutor(1) as pool:
        pool.submit(int).result()  # a process that has started cannot inherit the function any more
        ps.minimize(lambda x: (x**2).sum(), [(-1, 1)], workers=pool)


USES = {
    "plot": lambda: ps.plot.convergence(result()),
    "progress": lambda: ps.minimize(np.sum, [(-1, 1)], progress=True),
    "study": study,
    "posterior": lambda: posterior().to_datatree(),
    "dataframe": lambda: result().to_dataframe(),
    "xarray": lambda: posterior().to_xarray(),
    "sklearn": lambda: ps.sklearn.PAOSearchCV,
    "parallel": send,
    "ray": ps.RayExecutor,
    "bbob": lambda: ps.study.run_coco("bbob"),
    "ioh": lambda: ps.study.run_ioh([]),
    "optuna": lambda: ps.optuna.PAOSampler,
    "numba": lambda: compiled("numba"),
    "jax": lambda: compiled("jax"),
    "cuda": lambda: compiled("cuda"),
    "peers": lambda: ps.study.adapters.Freelunch()(np.sum, np.array([[-1.0, 1.0]]), population=5, seed=1),
}


def complaints():
    """What is wrong with the errors, in sentences."""
    extras = gathered()["extras"]
    for extra in sorted(extras.keys() - USES.keys() - BROUGHT_ALONG):
        yield f"{extra}: nothing here uses it"
    for extra, use in USES.items():
        try:
            use()
        except (ImportError, TypeError) as error:
            if f"pip install 'paoswarm[{extra}]'" not in str(error):
                yield f"{extra}: it does not say how to install it: {error}"
        else:
            yield f"{extra}: there was no error"


if __name__ == "__main__":
    found = list(complaints())
    print("\n".join(found) or f"{len(USES)} extras are missing, and each error says how to install it")
    raise SystemExit(bool(found))

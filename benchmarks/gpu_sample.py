"""The sampler on a GPU: draws a second from call to result, and where the time goes, beside NumPy on the host.

    python benchmarks/gpu_sample.py                       # needs NumPy, SciPy and JAX
    python benchmarks/gpu_sample.py --out gpu_sample.jsonl
    python benchmarks/gpu_sample.py --quick               # fewer draws, for a processor

Four posteriors with ten parameters whose evidence is known: a correlated normal one; a bent one (banana); two modes of
different width; a regression on 1000 observations, whose likelihood costs more. *Draws a second* counts every draw of
the production and divides by the time of the whole call: search, fits, compilation, draws, copies and diagnostics.
*z* is the error of the log evidence in its stated standard errors. Every call compiles anew.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import pathlib
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "src"))

missing = []
for package in ("numpy", "scipy", "jax"):
    try:
        importlib.import_module(package)
    except ImportError:
        missing.append(package)
if missing:
    sys.exit(f"these packages are missing: {', '.join(missing)}")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import paoswarm as ps  # noqa: E402
from paoswarm.sampling import assemble_posterior, importance, jax_target, sample  # noqa: E402

D = 10
SHOULD_MOVE = assemble_posterior._should_move
SECONDS: dict[str, float] = {}


def timed(owner: object, name: str, label: str) -> None:
    """Add the time of all calls of a function to `SECONDS`."""
    inner = getattr(owner, name)

    def outer(*args: object, **options: object) -> object:
        began = time.perf_counter()
        try:
            return inner(*args, **options)
        finally:
            SECONDS[label] = SECONDS.get(label, 0.0) + time.perf_counter() - began

    setattr(owner, name, outer)


for owner, name, label in [
    (sample, "adapt", "search and fits"),
    (assemble_posterior, "produce", "production"),
    (assemble_posterior, "_assembled", "posterior"),
    (jax_target.JaxTarget, "draw", "draw"),
    (jax_target.JaxTarget, "_compiled", "compile"),
    (jax_target.JaxTarget, "_checked", "check"),
    (importance, "_measure", "draw and weigh"),
    (importance, "find_uncovered", "coverage"),
    (assemble_posterior, "tempered", "tempering"),
]:
    timed(owner, name, label)


def normal(xp):
    covariance = 0.5 * np.ones((D, D)) + 0.5 * np.eye(D)
    inverse = np.linalg.inv(covariance)

    def log_likelihood(x):
        return -0.5 * xp.sum((x @ inverse) * x, axis=-1)

    exact = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] - D * math.log(20)
    return log_likelihood, [(-10, 10)] * D, exact


def banana(xp):
    scale, bend = 2.0, 0.25

    def log_likelihood(x):
        first = x[..., 0] / scale
        second = x[..., 1] + bend * (x[..., 0] ** 2 - scale**2)
        return -0.5 * (first**2 + second**2 + xp.sum(x[..., 2:] ** 2, axis=-1))

    exact = 0.5 * D * math.log(2 * math.pi) + math.log(scale) - D * math.log(80)
    return log_likelihood, [(-40, 40)] * D, exact


def two_modes(xp):
    places, widths, shares = (-4.0, 3.0), (0.5, 1.0), (0.7, 0.3)

    def log_likelihood(x):
        parts = [
            math.log(share) - 0.5 * xp.sum(((x - place) / width) ** 2, axis=-1) - D * math.log(width)
            for place, width, share in zip(places, widths, shares, strict=True)
        ]
        return xp.logaddexp(*parts) - 0.5 * D * math.log(2 * math.pi)

    return log_likelihood, [(-10, 10)] * D, -D * math.log(20)


def regression(xp, n=1000):
    from scipy import stats

    rng = np.random.default_rng(3)
    design = rng.standard_normal((n, D)) @ (np.eye(D) + 0.3 * rng.standard_normal((D, D)))
    data = design @ rng.standard_normal(D) + rng.standard_normal(n)
    constant = -0.5 * n * math.log(2 * math.pi)

    def log_likelihood(x):
        return constant - 0.5 * xp.sum((data - x @ design.T) ** 2, axis=-1)

    prior_sd = 5.0
    # The data are normal with covariance I + s^2 X X^T; by the matrix determinant lemma in D dimensions.
    inner = np.eye(D) / prior_sd**2 + design.T @ design
    projected = design.T @ data
    log_det = 2 * D * math.log(prior_sd) + np.linalg.slogdet(inner)[1]
    exact = constant - 0.5 * log_det - 0.5 * (data @ data - projected @ np.linalg.solve(inner, projected))
    return log_likelihood, [stats.norm(0, prior_sd)] * D, float(exact)


PROBLEMS = {"normal": normal, "banana": banana, "two modes": two_modes, "regression": regression}


def measure(problem: str, engine: object, n_effective: int, rng: int, by_moves: bool = False) -> dict[str, object]:
    """One call of `sample`, with the time of its parts; by tempering, if it is told so."""
    is_numpy = engine == "numpy"
    assemble_posterior._should_move = (lambda *args: True) if by_moves else SHOULD_MOVE
    log_likelihood, prior, exact = PROBLEMS[problem](np if is_numpy else jnp)
    SECONDS.clear()
    began = time.perf_counter()
    posterior = ps.sample(log_likelihood, prior, vectorized=is_numpy, n_effective=n_effective, rng=rng, engine=engine)
    seconds = time.perf_counter() - began
    n = len(posterior.weighted.draws)
    return {
        "problem": problem,
        "engine": str(engine),
        "n_effective": n_effective,
        "draws": n,
        "effective": posterior.effective_size,
        "evaluations": posterior.n_evaluations,
        "method": posterior.method,
        "seconds": seconds,
        "draws a second": n / seconds,
        "error": posterior.log_evidence - exact,
        "stated": posterior.log_evidence_error,
        "z": (posterior.log_evidence - exact) / posterior.log_evidence_error,
        "modes": len(posterior.diagnostics["modes"]),
        "success": posterior.success,
        "message": posterior.message,
        "parts": {label: round(value, 3) for label, value in SECONDS.items()},
    }


def device_rate(problem: str, n: int) -> dict[str, object]:
    """Draws a second of the compiled function alone, with nothing copied to the host."""
    log_likelihood, prior, _ = PROBLEMS[problem](jnp)
    found: dict[str, object] = {"problem": problem, "engine": "device alone"}
    inner = jax_target.JaxTarget._compiled

    def compiled(self, proposal, parts, count):
        batch, size = inner(self, proposal, parts, count)
        word = np.zeros(2, dtype=np.uint32)
        with jax.enable_x64(True):
            jax.block_until_ready(batch(parts, word[0], word[0], word))
            began = time.perf_counter()
            for k in range(max(1, n // size)):
                last = batch(parts, np.uint32(k * size), word[0], word)
            jax.block_until_ready(last)
        found["device draws a second"] = max(1, n // size) * size / (time.perf_counter() - began)
        found["components"], found["batch"] = len(parts.cumulative), size
        return batch, size

    jax_target.JaxTarget._compiled = compiled
    try:
        ps.sample(log_likelihood, prior, n_effective=max(200_000, n // 50), rng=1, engine="jax")
    finally:
        jax_target.JaxTarget._compiled = inner
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="a file to which each figure is appended as a line of JSON")
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    options = parser.parse_args()
    sizes = (10_000, 100_000) if options.quick else (1_000_000, 10_000_000)
    single = ps.engines.Jax(precision="single")

    def tell(row: dict[str, object]) -> None:
        row = {"device": jax.devices()[0].device_kind, **row}
        print(json.dumps(row), flush=True)
        if options.out:
            with open(options.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    for problem in options.problems:
        calls: list[tuple[object, int]] = [("jax", size) for size in sizes]
        calls += [(single, sizes[-1]), ("numpy", sizes[0] // (10 if problem == "regression" else 1))]
        for engine, n_effective in calls:
            try:
                tell(measure(problem, engine, n_effective, rng=1))
            except Exception as error:
                tell({"problem": problem, "engine": str(engine), "failed": f"{type(error).__name__}: {error}"[:800]})
        if problem == "normal":
            for engine, n_effective in (("jax", sizes[0]), ("numpy", sizes[0] // 10)):
                try:
                    tell(measure(problem, engine, n_effective, rng=1, by_moves=True))
                except Exception as error:
                    tell({"engine": f"{engine} by moves", "failed": f"{type(error).__name__}: {error}"[:800]})
        try:
            assemble_posterior._should_move = SHOULD_MOVE
            tell(device_rate(problem, sizes[-1]))
        except Exception as error:
            tell({"problem": problem, "engine": "device alone", "failed": f"{type(error).__name__}: {error}"[:800]})


if __name__ == "__main__":
    main()

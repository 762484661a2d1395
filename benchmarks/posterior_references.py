"""Compute evidence and moments of the problems with methods that are independent of ``paoswarm.sample``.

``python benchmarks/posterior_references.py`` writes ``posterior_references.json`` (some minutes). It uses formulas and
quadrature where the problem allows it. Otherwise it uses the importance sampling of ``posterior_importance.py``, with
four million draws from two seeds. ``--check`` compares the quadratures with importance sampling and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import posterior_problems as pp
from posterior_importance import Known, from_grid, importance, second_differences
from scipy import optimize, stats
from scipy.special import erf


def volume(prior: list[Any]) -> float:
    """Logarithm of the volume of a box."""
    return sum(math.log(np.subtract(*law.support()[::-1])) for law in prior)


# Formulas and quadrature. The boxes cut less than 1e-4 off the normal laws and the shells, which is neglected.


def mixture(name: str) -> Known:
    weights, centres, sds, d, half = map(np.array, pp.NORMALS[name])
    mean = weights @ centres
    sd = math.sqrt(weights @ (sds**2 + centres**2) - mean**2)
    return -d * math.log(2 * half), np.full(d, mean), np.full(d, sd)


def shells(d: int, radius: float = 2.0, width: float = 0.1, centre: float = 3.5, half: float = 6.0) -> Known:
    r = np.linspace(radius - 10 * width, radius + 10 * width, 20_001)
    thickness = np.exp(-0.5 * ((r - radius) / width) ** 2) / np.sqrt(2 * np.pi) / width * r ** (d - 1)
    area = math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(d / 2)
    inside = math.log(thickness.sum() * (r[1] - r[0]))
    variance = np.full(d, (thickness @ r**2) / thickness.sum() / d)
    variance[0] += centre**2
    return math.log(2) + area + inside - d * math.log(2 * half), np.zeros(d), np.sqrt(variance)


def rosenbrock() -> Known:
    log_likelihood, prior = pp.rosenbrock()
    grid = np.linspace(-5, 5, 4001)
    known = [from_grid(log_likelihood(x := np.stack([grid, np.full_like(grid, y)], axis=1)), x) for y in grid]
    parts, means, sds = (np.array(column) for column in zip(*known, strict=True))
    log_evidence, mean, sd = from_grid(parts, means, sds**2)
    return log_evidence + 2 * math.log(grid[1] - grid[0]) - volume(prior), mean, sd


def banana(d: int = 10, bend: float = 0.03, long: float = 10.0) -> Known:
    """Quadrature over the first parameter, the only one that the box truncates."""
    grid = np.linspace(-40, 40, 8001)
    x = np.zeros((len(grid), d))
    x[:, 0], x[:, 1] = grid, -bend * (grid**2 - long**2)
    spread = np.ones(d)
    spread[0] = 0
    cut, mean, sd = from_grid(stats.norm(0, long).logpdf(grid) + math.log(grid[1] - grid[0]), x, spread)
    return cut - volume(pp.banana()[1]), mean, sd


def funnel(d: int = 10, half: float = 100.0) -> Known:
    """Quadrature over v. Given v, the other parameters are independent normal laws, truncated by the box."""
    grid = np.linspace(-9, 9, 20_001)
    a = half * np.exp(-grid / 2)
    kept = erf(a / math.sqrt(2))
    variance = np.exp(grid) * (1 - 2 * a * stats.norm.pdf(a) / kept)
    spread = np.concatenate([np.zeros((len(grid), 1)), np.repeat(variance[:, None], d - 1, axis=1)], axis=1)
    ends = np.where(np.abs(grid) == 9, math.log(0.5), 0.0)
    log_weights = stats.norm(0, 3).logpdf(grid) + (d - 1) * np.log(kept) + ends + math.log(grid[1] - grid[0])
    x = np.concatenate([grid[:, None], np.zeros((len(grid), d - 1))], axis=1)
    log_evidence, mean, sd = from_grid(log_weights, x, spread)
    return log_evidence - volume(pp.funnel()[1]), mean, sd


def schools(n: int = 2000) -> Known:
    """Quadrature over mu and tau. Given these, the eta are independent normal laws.

    Tau runs over quantiles of its prior, which has heavy tails.
    """
    y, error = pp.SCHOOLS
    node, weight = np.polynomial.legendre.leggauss(n)
    tau = 5 * np.tan(math.pi / 4 * (node + 1))
    mu = np.linspace(-40, 40, 801)
    mu, tau = (part.ravel()[:, None] for part in np.meshgrid(mu, tau, indexing="ij"))
    log_weights = stats.norm(0, 5).logpdf(mu[:, 0]) + math.log(0.1) + np.tile(np.log(weight / 2), 801)
    log_weights += stats.norm(mu, np.hypot(tau, error)).logpdf(y).sum(axis=1)
    shrink = 1 / (1 + (tau / error) ** 2)
    spread = np.concatenate([np.zeros((len(mu), 2)), shrink], axis=1)
    return from_grid(log_weights, np.concatenate([mu, tau, shrink * tau * (y - mu) / error**2], axis=1), spread)


# Regressions that are linear in their first parameters. These are integrated exactly, the others on a grid.

Linear = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # offset (m, n) and basis (m, n, p)


def misra_basis(x: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((1, len(x))), 1 - np.exp(-other[:, :1, None] * x[:, None])


def rational_basis(x: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    powers = x[:, None] ** np.arange(other.shape[1] + 1)
    return np.zeros((1, len(x))), powers / (1 + other @ powers[:, 1:].T)[:, :, None]


def roszman_basis(x: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bend = -np.arctan(other[:, :1] / (x - other[:, 1:])) / math.pi
    return bend, np.broadcast_to(np.stack([np.ones_like(x), -x], axis=1), (len(other), len(x), 2))


def conditional(data: np.ndarray, sd: float, basis: Linear, other: np.ndarray) -> tuple[np.ndarray, ...]:
    """Integral over the linear parameters, and their means and variances, for each row of the other parameters."""
    y, x = data
    offset, design = basis(x, other)
    scale = np.linalg.norm(design, axis=1, keepdims=True)
    q, r = np.linalg.qr(design / scale)
    seen = y - offset
    along = np.einsum("mnp,mn->mp", q, seen)
    left = (seen**2).sum(axis=1) - (along**2).sum(axis=1)
    inverse = np.linalg.inv(r) / np.swapaxes(scale, 1, 2)
    p = design.shape[2]
    log_det = np.log(np.abs(np.diagonal(inverse, axis1=1, axis2=2))).sum(axis=1)
    normal = -0.5 * left / sd**2 - len(y) * math.log(sd * math.sqrt(2 * math.pi))
    integral = normal + 0.5 * p * math.log(2 * math.pi) + p * math.log(sd) + log_det
    return integral, np.einsum("mpq,mq->mp", inverse, along), sd**2 * (inverse**2).sum(axis=2)


def partly_linear(text: str, sd: float, prior: list[Any], basis: Linear, start: np.ndarray, points: int) -> Known:
    """Integrate on a grid along the principal axes of the mode.

    The grid covers 22 standard deviations each way, because some posteriors have long tails.
    """
    data = np.array(text.split(), dtype=float).reshape(2, -1)
    scale = np.abs(start)

    def objective(u: np.ndarray) -> float:
        return -float(conditional(data, sd, basis, (u * scale)[None])[0][0])

    mode = optimize.minimize(objective, np.sign(start), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).x
    root = np.eye(len(start)) * 1e-4
    for _ in range(8):  # each round turns the axes towards the principal ones
        hessian = second_differences(lambda u: -np.array([objective(v) for v in u]), mode, root)
        values, vectors = np.linalg.eigh(hessian)
        root = root @ vectors / np.sqrt(np.maximum(values, 1e-6))
    line = np.linspace(-22, 22, points)
    grid = np.stack(np.meshgrid(*[line] * len(start), indexing="ij"), axis=-1).reshape(-1, len(start))
    other = (mode + grid @ root.T) * scale
    low, high = np.array([law.support() for law in prior[-len(start) :]]).T
    other = other[((other > low) & (other < high)).all(axis=1)]
    parts = [conditional(data, sd, basis, chunk) for chunk in np.array_split(other, max(1, len(other) // 20_000))]
    integral, mean, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
    cell = math.log(abs(np.linalg.det(root))) + np.log(scale).sum() + len(start) * math.log(line[1] - line[0])
    spread = np.concatenate([variance, np.zeros_like(other)], axis=1)
    log_evidence, *moments = from_grid(integral + cell, np.concatenate([mean, other], axis=1), spread)
    return log_evidence - volume(prior), *moments


EXACT: dict[str, Callable[[], Known]] = {
    **{name: lambda name=name: mixture(name) for name in pp.NORMALS},
    "gauss10": lambda: (-10 * math.log(20), np.zeros(10), np.ones(10)),
    "shells2": lambda: shells(2),
    "shells5": lambda: shells(5),
    "rosenbrock2": rosenbrock,
    "banana10": banana,
    "funnel10": funnel,
    "schools": schools,
}


def nist(name: str, text: str, sd: float, basis: Linear, start: tuple[float, ...], points: int) -> None:
    EXACT[name] = lambda: partly_linear(text, sd, pp.PROBLEMS[name]()[1], basis, np.array(start), points)


nist("misra1a", pp.MISRA1A, 0.10187876330, misra_basis, (5.5e-4,), 4001)
nist("thurber", pp.THURBER, 13.714600784, rational_basis, pp.THURBER_CERTIFIED[4:], 177)
nist("kirby2", pp.KIRBY2, 0.16354535131, rational_basis, pp.KIRBY2_CERTIFIED[3:], 801)
nist("roszman1", pp.ROSZMAN1, 0.0048542984060, roszman_basis, pp.ROSZMAN1_CERTIFIED[2:], 801)


def rounded(known: Known) -> dict[str, Any]:
    log_evidence, mean, sd = known
    mean, sd = np.asarray(mean), np.asarray(sd)
    places = [6 - math.floor(math.log10(value)) for value in sd]  # decimals that resolve a millionth of an sd
    return {
        "log_evidence": round(float(log_evidence), 5),
        "mean": [round(float(value), place) + 0.0 for value, place in zip(mean, places, strict=True)],
        "sd": [round(float(value), place) for value, place in zip(sd, places, strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=list(pp.PROBLEMS), default=list(pp.PROBLEMS))
    parser.add_argument(
        "--check", action="store_true", help="compare quadrature with importance sampling, write nothing"
    )
    options = parser.parse_args()
    known = json.loads(pp.REFERENCES.read_text()) if pp.REFERENCES.exists() else {}
    for name in options.problems:
        print(name, flush=True)
        found = rounded(EXACT[name]() if name in EXACT and not options.check else importance(name))
        if options.check and name in known:
            z = np.subtract(found["mean"], known[name]["mean"]) / known[name]["sd"]
            ratio = np.log(np.divide(found["sd"], known[name]["sd"]))
            apart = found["log_evidence"] - known[name]["log_evidence"]
            print(
                f"  difference: log evidence {apart:.5f}, mean {np.abs(z).max():.5f} sd, sd {np.abs(ratio).max():.5f}",
                flush=True,
            )
        else:
            known[name] = found | {"probe": pp.probe(*pp.PROBLEMS[name]())}
            pp.REFERENCES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

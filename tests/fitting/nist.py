"""The nonlinear regressions of NIST's Statistical Reference Datasets, read from the files as published."""

import re
from pathlib import Path
from typing import NamedTuple

import mpmath
import numpy as np

FOLDER = Path(__file__).parents[2] / "examples" / "data" / "nist"


def _cubic(b, x, xp):
    return (b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3) / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def _bell(height, centre, width, x, xp):
    return height * xp.exp(-((x - centre) ** 2) / width**2)


# Each takes parameters, predictors and what has the functions: NumPy, or `Precise`.
MODELS = {
    "Chwirut2": lambda b, x, xp: xp.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda b, x, xp: b[0] * x ** b[1],
    "Gauss1": lambda b, x, xp: b[0] * xp.exp(-b[1] * x) + _bell(*b[2:5], x, xp) + _bell(*b[5:8], x, xp),
    "Hahn1": _cubic,
    "Kirby2": lambda b, x, xp: (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2),
    "Lanczos3": lambda b, x, xp: sum(b[k] * xp.exp(-b[k + 1] * x) for k in (0, 2, 4)),
    "Misra1a": lambda b, x, xp: b[0] * (1 - xp.exp(-b[1] * x)),
    "Nelson": lambda b, x, xp: b[0] - b[1] * x[0] * xp.exp(-b[2] * x[1]),
    "Roszman1": lambda b, x, xp: b[0] - b[1] * x - xp.arctan(b[2] / (x - b[3])) / xp.pi,
    "Thurber": _cubic,
}


class Precise:
    """The functions that the models need, with sixty digits."""

    exp = np.frompyfunc(mpmath.exp, 1, 1)
    arctan = np.frompyfunc(mpmath.atan, 1, 1)
    pi = mpmath.pi


class Regression(NamedTuple):
    """A data set, its model and what is certified."""

    name: str
    x: np.ndarray
    y: np.ndarray
    starts: np.ndarray  # (2, d)
    certified: np.ndarray
    errors: np.ndarray
    sum_of_squares: float

    def residuals(self, b):
        with np.errstate(all="ignore"):
            return self.y - MODELS[self.name](b, self.x, np)

    def squares(self, b):
        r = self.residuals(b)
        return r @ r

    def errors_from_hessian(self):
        """Standard errors from all second derivatives of the sum of squares, worked out with sixty digits."""
        with mpmath.workdps(60):
            precise = np.frompyfunc(mpmath.mpf, 1, 1)
            x, y, b = precise(self.x), precise(self.y), precise(self.certified)
            d = len(b)

            def squares(point):
                return ((y - MODELS[self.name](point, x, Precise)) ** 2).sum()

            steps = np.diag(b * mpmath.mpf(10) ** -15)
            hessian = mpmath.matrix(d, d)
            for i in range(d):
                for j in range(i + 1):
                    corners = [squares(b + p * steps[i] + q * steps[j]) * p * q for p in (-1, 1) for q in (-1, 1)]
                    hessian[i, j] = hessian[j, i] = sum(corners) / (4 * steps[i, i] * steps[j, j])
            covariance = 2 * squares(b) / (len(y) - d) * hessian**-1
            return np.array([float(mpmath.sqrt(covariance[i, i])) for i in range(d)])


def read(name):
    text = (FOLDER / f"{name}.dat").read_text()
    rows = re.findall(r"^\s*b\d+ =\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)", text, flags=re.MULTILINE)
    first, second, certified, errors = np.array(rows, dtype=float).T
    least = float(re.search(r"Residual Sum of Squares:\s+(\S+)", text)[1])
    begin, end = map(int, re.search(r"Data\s+\(lines\s+(\d+) to\s+(\d+)\)", text).groups())
    data = np.array([line.split() for line in text.splitlines()[begin - 1 : end]], dtype=float).T
    y, x = data[0], data[1:] if len(data) > 2 else data[1]
    y = np.log(y) if name == "Nelson" else y
    return Regression(name, x, y, np.array([first, second]), certified, errors, least)

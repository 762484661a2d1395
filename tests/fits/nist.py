"""The nonlinear regressions of NIST's Statistical Reference Datasets, read from the files as published."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

FOLDER = Path(__file__).parents[2] / "examples" / "data" / "nist"


def _cubic(b, x):
    return (b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3) / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def _bell(height, centre, width, x):
    return height * np.exp(-((x - centre) ** 2) / width**2)


MODELS = {
    "Chwirut2": lambda b, x: np.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "Gauss1": lambda b, x: b[0] * np.exp(-b[1] * x) + _bell(*b[2:5], x) + _bell(*b[5:8], x),
    "Hahn1": _cubic,
    "Kirby2": lambda b, x: (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2),
    "Lanczos3": lambda b, x: sum(b[k] * np.exp(-b[k + 1] * x) for k in (0, 2, 4)),
    "Misra1a": lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * np.exp(-b[2] * x[1]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / np.pi,
    "Thurber": _cubic,
}


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
            return self.y - MODELS[self.name](b, self.x)

    def squares(self, b):
        r = self.residuals(b)
        return r @ r


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

"""What ``paoswarm fit`` writes: JSON, and tables of estimates and predictions."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def of_fit(fit: Any) -> dict[str, Any]:
    """What a fit has found besides its best point."""
    estimates, outputs = _estimates(fit), _outputs(fit)
    names = ("chi_square", "degrees_of_freedom", "log_likelihood", "aic", "bic", "sigma", "correlations", "covariance")
    return {
        "estimates": {row.pop("name"): row for row in estimates},
        **{name: getattr(fit, name) for name in names},
        "factors": {name: {"scale": a, "offset": b} for name, (a, b) in fit.factors.items()},
        "outputs": outputs,
        "searches": [
            {"value": one.value, "evaluations": one.evaluations, "ending": one.ending} for one in fit.searches
        ],
        "remarks": fit.remarks,
    }


def write_fit(fit: Any, options: argparse.Namespace, x: tuple[str, Any] | None) -> None:
    """Write the tables that the options name."""
    if options.estimates is not None:
        _write_estimates(fit, options.estimates)
    if options.predictions is not None:
        _write_predictions(fit, options.predictions, x)


def _write_estimates(fit: Any, path: str) -> None:
    """Estimates, errors, intervals and correlations as CSV, a line for each unknown."""
    rows = _estimates(fit)
    names = [row["name"] for row in rows]
    head = [*rows[0], *(f"correlation with {name}" for name in names)]
    lines = [[*row.values(), *numbers] for row, numbers in zip(rows, fit.correlations.tolist(), strict=True)]
    _write(path, head, lines)


def _write_predictions(fit: Any, path: str, x: tuple[str, Any] | None) -> None:
    """Data, predictions, their 95 % bands and residuals as CSV, a line for each row of the data."""
    columns: dict[str, Any] = {} if x is None else {x[0]: x[1]}
    for name, parts in _outputs(fit).items():
        columns |= {f"{name} {what}".strip(): values for what, values in parts.items()}
    longest = max(len(values) for values in columns.values())
    filled = [[*values, *[np.nan] * (longest - len(values))] for values in columns.values()]
    _write(path, list(columns), zip(*filled, strict=True))


def _write(path: str, head: Sequence[str], lines: Any) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for line in lines:
            writer.writerow("" if one != one else one for one in line)


def _estimates(fit: Any) -> list[dict[str, Any]]:
    one, (low, high) = fit.uncertainty, fit.interval()
    columns = zip(one.names, one.x.tolist(), fit.standard_errors.tolist(), low.tolist(), high.tolist(), strict=True)
    keys = ("name", "estimate", "standard error", "2.5 %", "97.5 %")
    return [dict(zip(keys, row, strict=True)) for row in columns]


def _outputs(fit: Any) -> dict[str, dict[str, list[float]]]:
    """Data, predictions, bands and residuals by output."""
    low, high = fit.band()
    parts = {"data": fit.data, "prediction": fit.predictions, "2.5 %": low, "97.5 %": high, "residual": fit.residuals}
    by_name = {what: given if isinstance(given, Mapping) else {"": given} for what, given in parts.items()}
    return {
        name: {what: np.ravel(values[name]).tolist() for what, values in by_name.items()} for name in by_name["data"]
    }

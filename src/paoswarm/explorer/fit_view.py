"""A stored `fit`, ready to be drawn: data and best predictions of each output, and what the fit so far says.

The best prediction comes from recorded outputs and is there at once. Bands, errors and searches need the whole run: see
`paoswarm.explorer.repeated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.helpers import recorded_comparison
from paoswarm.results import Fit

Floats = NDArray[np.float64]
_MOST_CURVES = 24
_MOST_ROWS = 3000  # of a curve; of more every second, third, ... one
_MOST_SEARCHES = 500
_LONGEST = 80  # characters of a name


def curves(problem: dict[str, Any], origin: Any, outputs: Floats) -> list[dict[str, Any]]:
    """Data, best prediction and residuals for each output, column by column, in the order of their places."""
    comparison = recorded_comparison(problem, outputs)
    predicted = comparison.loss(len(outputs)).predicted(outputs)
    parts = _columns(comparison.outputs, len(predicted))
    data = np.full(len(predicted), np.nan) if comparison.outputs is None else comparison.outputs.data
    residual = predicted if comparison.outputs is None else predicted - data
    found = []
    for name, rows in parts[:_MOST_CURVES]:
        label, x = _places(problem, origin, len(rows))
        rows, x = _in_order(rows, x)
        found.append(
            {
                "name": name[:_LONGEST],
                "label": label[:_LONGEST],
                "x": x,
                "row": rows,
                "data": data[rows],
                "prediction": predicted[rows] if comparison.outputs is not None else np.zeros(0),
                "residual": residual[rows],
            }
        )
    return found


def _columns(outputs: Any, m: int) -> list[tuple[str, NDArray[np.intp]]]:
    """The name of each series of numbers, and where it is in the vector of outputs."""
    if outputs is None:
        return [("", np.arange(m))]
    found = []
    for part in outputs.parts:
        columns = part.columns
        name = part.name
        found += [(f"{name} {j}".strip() if len(columns) > 1 else name, rows) for j, rows in enumerate(columns)]
    return found


def _places(problem: dict[str, Any], origin: Any, count: int) -> tuple[str, Floats]:
    """Where a series is measured, if the file says it for so many numbers; else their numbers."""
    origin = origin if isinstance(origin, dict) else {}
    command = origin.get("command")
    at = command.get("at") if isinstance(command, dict) else None
    named = [*at.items()] if isinstance(at, dict) else []
    xdata = problem.get("xdata")
    if isinstance(xdata, dict):
        named.append((str(origin.get("x") or "x"), xdata.get("array")))
    for name, places in named:
        try:
            x = np.array(places, dtype=float)
        except (TypeError, ValueError):
            continue
        if x.shape == (count,) and np.isfinite(x).all():
            return str(name), x
    return "number", np.arange(1.0, count + 1)


def _in_order(rows: NDArray[np.intp], x: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Rows in the order of their places, thinned out if there are many."""
    order = np.argsort(x, kind="stable")[:: -(-len(x) // _MOST_ROWS)]
    return rows[order], x[order]


def with_bands(found: list[dict[str, Any]], band: Floats | None) -> list[dict[str, Any]]:
    """Curves with the band ``(2, m)`` of all outputs, if it is known."""
    drawn = []
    for one in found:
        rows = one.pop("row")
        has_band = band is not None and len(one["prediction"]) and rows.max() < band.shape[1]
        drawn.append(one | ({"band": band[:, rows]} if band is not None and has_band else {}))
    return drawn


def describe(fit: Fit) -> dict[str, Any]:
    """Estimates, bands and searches of a fit."""
    one, (low, high) = fit.uncertainty, fit.interval()
    ended = zip(fit.searches, fit.searches.places, strict=True)
    return {
        "names": [name[:_LONGEST] for name in one.names],
        "estimates": np.stack([one.x, fit.standard_errors, low, high]),
        "band": np.stack([_vector(side) for side in fit.band()]),
        "remarks": list(fit.remarks),
        "facts": _facts(fit),
        "searches": [
            {"value": found.value, "evaluations": found.evaluations, "place": place, "ending": found.ending}
            for found, place in islice(ended, _MOST_SEARCHES)
        ],
    }


def _facts(fit: Fit) -> list[tuple[str, float]]:
    """Numbers that say how good a fit is."""
    facts = [("degrees of freedom", float(fit.degrees_of_freedom)), ("AIC", fit.aic), ("BIC", fit.bic)]
    facts += [(f"standard deviation of {name or 'a datum'}"[:_LONGEST], sigma) for name, sigma in fit.sigma.items()]
    for name, (scale, offset) in fit.factors.items():
        facts += [(f"scale {name}".strip()[:_LONGEST], scale), (f"offset {name}".strip()[:_LONGEST], offset)]
    return facts


def _vector(given: Any) -> Floats:
    """Arrays by name as one vector, in the order of the outputs."""
    parts = given.values() if isinstance(given, Mapping) else [given]
    return np.concatenate([np.ravel(part) for part in parts])

"""Convert a posterior to ArviZ's ``DataTree``, or to a dataset of xarray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm._extras import need
from paoswarm.core.arrays import Floats

if TYPE_CHECKING:
    from paoswarm.sampling.posterior import Posterior

Functions = Mapping[str, Callable[[Floats], ArrayLike]]


def datatree(
    posterior: Posterior,
    rows: NDArray[np.intp],
    functions: Mapping[str, Functions | None],
    observed_data: Mapping[str, ArrayLike] | None,
    vectorized: bool,
) -> Any:
    """Make the tree of the given rows of the weighted draws; see `Posterior.to_datatree`.

    ``functions`` are the functions of the parameters whose values make up further groups, by group and name.
    """
    arviz_base = need("arviz_base", extra="posterior", user="to_datatree")
    if taken := {"chain", "draw"}.intersection(posterior.names):
        raise ValueError(f"ArviZ has its own dimension {sorted(taken)[0]!r}; give the parameter another name")
    x = posterior.weighted.draws[rows]
    groups: dict[str, dict[str, Any]] = {
        "posterior": dict(zip(posterior.names, x.T, strict=True)),
        "sample_stats": {name: values[rows] for name, values in _statistics(posterior).items()},
    }
    for group, by_name in functions.items():
        if by_name is not None:
            groups[group] = {name: values_at(function, x, vectorized) for name, function in by_name.items()}
    groups = {group: {name: a[None] for name, a in values.items()} for group, values in groups.items()}
    if observed_data is not None:
        groups["observed_data"] = {name: np.asarray(values) for name, values in observed_data.items()}
    about = {"inference_library": "paoswarm", "inference_library_version": metadata.version("paoswarm")}
    tree = arviz_base.from_dict(groups, attrs={"/": about | _facts(posterior), **dict.fromkeys(groups, about)})
    if len(modes := posterior.diagnostics.get("modes", ())):
        from xarray import Dataset, DataTree

        coords = {"mode": np.arange(len(modes)), "parameter": posterior.names}
        tree["modes"] = DataTree(Dataset({"position": (("mode", "parameter"), modes)}, coords))
    return tree


def dataset(posterior: Posterior, weighted: bool) -> Any:
    """Make the dataset of all weighted draws, or of those of equal weight; see `Posterior.to_xarray`."""
    xarray = need("xarray", extra="xarray", user="to_xarray")
    if taken := {"draw", *(["weight"] if weighted else [])}.intersection(posterior.names):
        raise ValueError(f"the dataset needs the name {min(taken)!r}; give the parameter another name")
    draws = posterior.weighted.draws if weighted else posterior.draws
    data = {name: ("draw", column.copy()) for name, column in zip(posterior.names, draws.T, strict=True)}
    if weighted:
        data["weight"] = ("draw", posterior.weighted.weights)
    return xarray.Dataset(data, coords={"draw": np.arange(len(draws))}, attrs=_facts(posterior))


def values_at(function: Callable[[Floats], ArrayLike], x: Floats, vectorized: bool) -> NDArray[Any]:
    """Evaluate the function at every row of a copy of ``x``, ``(n, ...)``."""
    x = x.copy()
    if not vectorized:
        return np.stack([np.asarray(function(row)) for row in x])
    found = np.asarray(function(x))
    if found.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"with vectorized=True the function must map {x.shape} to ({len(x)}, ...), but it returned {found.shape}"
        )
    return found


def _statistics(posterior: Posterior) -> dict[str, Floats]:
    """Log weight, log prior, log likelihood and their sum at the weighted draws, as far as known."""
    weighted = posterior.weighted
    with np.errstate(divide="ignore"):
        stats = {"log_weight": np.log(weighted.weights)}
    stats |= {} if weighted.log_prior is None else {"log_prior": weighted.log_prior}
    stats |= {} if weighted.log_likelihood is None else {"log_lik": weighted.log_likelihood}
    if weighted.log_prior is not None and weighted.log_likelihood is not None:
        stats["lp"] = weighted.log_prior + weighted.log_likelihood
    return stats


def _facts(posterior: Posterior) -> dict[str, Any]:
    """Evidence and diagnostics as numbers, lists of numbers and text. NetCDF has no booleans: they become 0 or 1."""
    known = {name: np.asarray(value) for name, value in posterior.diagnostics.items() if not isinstance(value, list)}
    known = {name: a.astype(int) if a.dtype.kind == "b" else a for name, a in known.items()}
    return {
        "method": posterior.method,
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
        "n_evaluations": posterior.n_evaluations,
        "n_failed": posterior.n_failed,
        "success": int(posterior.success),
        "message": posterior.message,
        **{name: a.tolist() for name, a in known.items() if a.ndim < 2 and a.dtype.kind in "if"},
    }

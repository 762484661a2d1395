"""Views of a posterior: a corner plot, a ``DataTree`` of ArviZ, a dataset of xarray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm._checks import choices, of_kind
from paoswarm._extras import need
from paoswarm._text import rounded
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator

if TYPE_CHECKING:
    from paoswarm.sampling.posterior import Posterior

_MOST = 10  # most parameters in one picture
_DOTS = 2000  # most draws in one panel
_SHARES = (0.95, 0.5)  # shares of the posterior inside the contours
_BINS = 100  # bins per side of the grid for contours
_MARGIN = 0.05  # beside the draws and marks, in widths
_FEWEST = 10  # fewest effective draws for which a density is drawn


def datatree(
    posterior: Posterior,
    rows: NDArray[np.intp],
    more: Mapping[str, Mapping[str, NDArray[Any]]],
    observed_data: Mapping[str, ArrayLike] | None,
) -> Any:
    """Make the tree of the given rows of the weighted draws; see `Posterior.to_datatree`.

    ``more`` are arrays ``(k, ...)`` of further groups, by group and name.
    """
    arviz_base = need("arviz_base", extra="posterior", user="to_datatree")
    if taken := {"chain", "draw"}.intersection(posterior.names):
        raise ValueError(f"ArviZ has its own dimension {sorted(taken)[0]!r}; give the parameter another name")
    x = posterior.weighted.draws[rows]
    groups: dict[str, dict[str, Any]] = {
        "posterior": dict(zip(posterior.names, x.T, strict=True)),
        "sample_stats": {name: values[rows] for name, values in _statistics(posterior).items()},
    }
    if posterior.simulated is not None:
        groups |= posterior.simulated.groups(rows, generator(posterior.seed))
        observed_data = posterior.simulated.data | dict(observed_data or {})
    groups |= {group: dict(arrays) for group, arrays in more.items()}
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


def values_at(
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    x: Floats,
    given: Callable[[Floats], Any],
    vectorized: bool,
) -> Any:
    """Evaluate a function, or several by name, at every row of ``x``, ``(n, ...)``; arrays by name if it returns such.

    ``given`` makes parameters what the function gets.
    """
    if isinstance(function, Mapping):
        return {name: values_at(one, x, given, vectorized) for name, one in function.items()}
    of_kind("function", function, Callable, "a function of the parameters, or a dict of functions")
    if not vectorized:
        each = [function(given(row)) for row in x.copy()]
        if each and isinstance(each[0], Mapping):
            return {name: np.stack([np.asarray(one[name]) for one in each]) for name in each[0]}
        return np.stack([np.asarray(one) for one in each])
    found = function(given(x.copy()))
    by_name = {name: np.asarray(one) for name, one in (found if isinstance(found, Mapping) else {"": found}).items()}
    for values in by_name.values():
        if values.shape[:1] != x.shape[:1]:
            raise ValueError(
                f"with vectorized=True the function must map {x.shape} to ({len(x)}, ...), but it returned "
                f"{values.shape}"
            )
    return by_name if isinstance(found, Mapping) else by_name[""]


def columns_of(what: str, names: str | Sequence[str], known: Sequence[str]) -> Any:
    """The column of a parameter, or those of several; raise if there is none of such a name."""
    several = [names] if isinstance(names, str) else names
    if not isinstance(several, list | tuple):
        raise TypeError(f"{what} must be the name of a parameter or a list of names, got {names!r}")
    _all_known(what, several, known)
    columns = [known.index(name) for name in several]
    return columns[0] if isinstance(names, str) else columns


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


def corner(
    posterior: Posterior,
    *,
    names: Sequence[str] | None = None,
    truth: Mapping[str, float] | ArrayLike | None = None,
    rng: Seed = 0,
) -> NDArray[Any]:
    """Draw a corner plot: every parameter alone, and every pair of parameters.

    The diagonal shows the marginal density, its 95 % interval, mean and standard deviation. Below the diagonal are
    draws, with contours that hold 50 % and 95 % of the posterior. Needs matplotlib.

    Parameters
    ----------
    posterior : Posterior
    names : list of str, optional
        The parameters to show, at most ten; by default all.
    truth : dict or array, optional
        Values to mark, by name or in the order of the parameters shown. Use NaN, or leave out the name, for no mark.
    rng : int, Generator, SeedSequence or None
        Seed of the choice of draws.

    Returns
    -------
    array (k, k) of matplotlib Axes
        Axes above the diagonal are switched off. The figure is ``axes[0, 0].figure``.

    Examples
    --------
    >>> import paoswarm as ps
    >>> posterior = ps.sample(lambda x: -(x**2).sum(), {"a": (-5, 5), "b": (-5, 5)}, rng=1)  # doctest: +SKIP
    >>> axes = ps.plot.corner(posterior, truth={"a": 0})  # doctest: +SKIP
    """
    shown = _chosen(posterior.names, names)
    marks = _marks(posterior.names, shown, truth)
    if posterior.effective_size < _FEWEST:
        raise ValueError(
            f"{posterior.effective_size:.1f} effective draws are too few to draw densities; {_FEWEST} are needed"
        )
    k, columns = len(shown), [posterior.names.index(name) for name in shown]
    side = min(max(9 / k, 1.35), 2.4)  # width of a panel, in inches
    small = min(max(4.2 * side, 7.0), 9.0)  # font size, in points
    pyplot = need("matplotlib.pyplot", extra="plot", user="plot.corner")
    size = (k * side + 0.7, k * side + 0.5)
    _, axes = pyplot.subplots(k, k, squeeze=False, sharex="col", figsize=size, layout="constrained")
    draws = posterior.resample(min(int(posterior.effective_size), _DOTS), rng)[:, columns]
    ends = np.array([np.nanmin([*draws, marks], axis=0), np.nanmax([*draws, marks], axis=0)])
    ends += _MARGIN * np.array([[-1], [1]]) * (np.ptp(ends, axis=0) + 1e-300)
    mean, std, interval = posterior.mean(), posterior.std(), np.stack(posterior.interval(0.95))
    for (i, j), ax in np.ndenumerate(axes):
        ax.set_axis_off() if j > i else _tidy(ax, small)
        if j == i:
            edges, density = _density(posterior, columns[i : i + 1], ends[:, i : i + 1])
            ax.plot(*edges, density)
            ax.set(xlim=ends[:, i], ylim=(0, None), yticks=[])
            ax.set_title(f"{rounded(mean[columns[i]], std[columns[i]])} ± {std[columns[i]]:.2g}", fontsize=small)
            for end in interval[:, columns[i]]:
                ax.axvline(end, color="0.4", lw=0.8, ls="--")
        elif j < i:
            ax.scatter(draws[:, j], draws[:, i], s=side, alpha=0.25)
            middles, density = _density(posterior, [columns[j], columns[i]], ends[:, [j, i]])
            held = np.sort(density, axis=None)[::-1]
            levels = [held[np.searchsorted(np.cumsum(held), share * held.sum())] for share in _SHARES]
            ax.contour(*middles, density.T, levels=np.unique(levels), colors="C0", linewidths=[0.8, 1.2])
            ax.set(ylim=ends[:, i])
            ax.tick_params(axis="y", labelleft=j == 0)
            if np.isfinite(marks[i]):
                ax.axhline(marks[i], color="C3", lw=1)
        if j <= i and np.isfinite(marks[j]):
            ax.axvline(marks[j], color="C3", lw=1)
    length = max(map(len, shown))  # labels are no longer than a panel
    for i, name in enumerate(shown):
        axes[-1, i].set_xlabel(name, fontsize=min(small, 130 * side / length))
        if i:
            axes[i, 0].set_ylabel(name, fontsize=min(small, 130 * side / length))
    axes[0, 0].figure.align_ylabels(axes[1:, 0])
    return np.asarray(axes)


def _density(posterior: Posterior, columns: list[int], ends: Floats) -> tuple[list[Floats], Floats]:
    """Middles of bins, and the smoothed share of the posterior in each, for one parameter or a pair."""
    from scipy.ndimage import gaussian_filter

    weighted, d = posterior.weighted, len(columns)
    shares, edges = np.histogramdd(weighted.draws[:, columns], _BINS, ends.T.tolist(), weights=weighted.weights)
    width = posterior.std()[columns] * posterior.effective_size ** (-1 / (d + 4))  # Scott's rule
    density = gaussian_filter(shares, width * _BINS / np.ptp(ends, axis=0), mode="constant")
    return [0.5 * (edge[1:] + edge[:-1]) for edge in edges], density


def _tidy(ax: Any, small: float) -> None:
    """Make ticks few and small."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    ax.tick_params(labelsize=small - 1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(3, prune="both"))
        formatter = ScalarFormatter(useMathText=True)
        formatter.set_powerlimits((-3, 4))
        axis.set_major_formatter(formatter)
        axis.get_offset_text().set_size(small - 1)


def _chosen(known: Sequence[str], names: Sequence[str] | None) -> list[str]:
    """The parameters to show."""
    shown = list(known if names is None else [names] if isinstance(names, str) else names)
    _all_known("names", shown, known)
    if len(set(shown)) < len(shown) or not shown:
        raise ValueError(f"names must be one or more different parameters, got {shown}")
    if len(shown) > _MOST:
        raise ValueError(
            f"{len(shown)} parameters are too many for one picture; choose up to {_MOST} by names=, "
            f"of {', '.join(map(repr, known))}"
        )
    return shown


def _all_known(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    if wrong := [name for name in names if name not in known]:
        raise ValueError(f"{what}: there is no parameter {wrong[0]!r}; {choices(str(wrong[0]), known)}")


def _marks(known: Sequence[str], shown: Sequence[str], truth: Mapping[str, float] | ArrayLike | None) -> Floats:
    """Values to mark for the parameters shown; NaN for none."""
    if truth is None:
        return np.full(len(shown), np.nan)
    if isinstance(truth, Mapping):
        _all_known("truth", truth, known)
        return np.array([float(truth.get(name, np.nan)) for name in shown])
    marks = np.asarray(truth, dtype=float)
    if marks.shape != (len(shown),):
        raise ValueError(f"truth must be one number for each of {list(shown)}, got shape {marks.shape}")
    return marks

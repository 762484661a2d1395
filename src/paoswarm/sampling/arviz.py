"""A posterior as a ``DataTree`` of ArviZ or a dataset of xarray, and corner plots, drawn by ArviZ."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm._extras import need
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed

if TYPE_CHECKING:
    from paoswarm.sampling.posterior import Posterior

if TYPE_CHECKING:
    from paoswarm.sampling.posterior import Posterior

_MOST = 10  # most parameters in one picture
_DOTS = 2000  # most draws in one panel
_SHARES = (0.95, 0.5)  # shares of the posterior inside the contours
_BINS = 100  # bins per side of the grid for contours
_FEWEST = 10  # fewest effective draws for which a density is drawn


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


def corner(
    posterior: Posterior,
    *,
    names: Sequence[str] | None = None,
    truth: Mapping[str, float] | ArrayLike | None = None,
    rng: Seed = 0,
) -> NDArray[Any]:
    """Draw a corner plot: every parameter alone, and every pair of parameters.

    The diagonal shows the marginal density, its 95 % interval, mean and standard deviation. Below the diagonal are
    draws, with contours that hold 50 % and 95 % of the posterior. It uses ArviZ's ``plot_pair`` and needs
    ``pip install 'paoswarm[posterior]'``.

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
    plots, colour = _load()
    k = len(shown)
    side = min(max(9 / k, 1.35), 2.4)  # width of a panel, in inches
    small = min(max(4.2 * side, 7.0), 9.0)  # font size, in points
    matrix = plots.plot_pair(
        posterior.to_datatree(min(int(posterior.effective_size), _DOTS), rng),
        var_names=shown,
        backend="matplotlib",
        triangle="lower",
        marginal_kind="kde",
        visuals={
            "scatter": {"size": side, "alpha": 0.25, "color": colour},
            "dist": {"color": colour},
            **dict.fromkeys(("credible_interval", "point_estimate", "point_estimate_text"), False),
        },
        figure_kwargs={"figsize": (k * side + 0.7, k * side + 0.5), "layout": "constrained"},
    )
    axes: NDArray[Any] = np.atleast_2d(matrix.viz["plot"].values)
    columns = [posterior.names.index(name) for name in shown]
    mean, std, interval = posterior.mean(), posterior.std(), np.stack(posterior.interval(0.95))
    for i, column in enumerate(columns):
        own = axes[i, i]
        _make_room(own, marks[i])
        own.set_ylim(bottom=0)
        own.set_ylabel("")
        own.set_title(_rounded(mean[column], std[column]), fontsize=small)
        for end in interval[:, column]:
            own.axvline(end, color="0.4", lw=0.8, ls="--")
        for j, ax in enumerate(axes[i, :i]):
            ax.set_ylim(own.get_xlim())
            _contours(ax, posterior, columns[j], column, colour)
            if np.isfinite(marks[i]):
                ax.axhline(marks[i], color="C3", lw=1)
        if np.isfinite(marks[i]):
            for ax in axes[i:, i]:
                ax.axvline(marks[i], color="C3", lw=1)
    _tidy(axes, side, small)
    return axes


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
        raise ValueError(f"{what}: there is no parameter {wrong[0]!r}; there are {', '.join(map(repr, known))}")


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


def _load() -> tuple[Any, str]:
    """Import ArviZ's plots; also return the colour to draw in."""
    try:
        with warnings.catch_warnings():  # older versions of ArviZ use deprecated parts of matplotlib
            warnings.simplefilter("ignore")
            with contextlib.suppress(ModuleNotFoundError):
                import matplotlib.style.core  # noqa: F401  arviz-plots up to 1.1 needs it with matplotlib 3.11
            import arviz_plots
            import arviz_plots.backend.matplotlib
            from matplotlib.colors import to_hex
    except ImportError as error:
        raise ImportError("plot.corner needs arviz-plots and matplotlib; pip install 'paoswarm[posterior]'") from error
    return arviz_plots, to_hex("C0")  # matplotlib warns of what ArviZ makes of "C0"


def _make_room(ax: Any, mark: float) -> None:
    """Widen the limits of a column to include its mark."""
    low, high = ax.get_xlim()
    edge = 0.05 * (high - low)
    ax.set_xlim(np.fmin(low, mark - edge), np.fmax(high, mark + edge))


def _contours(ax: Any, posterior: Posterior, i: int, j: int, colour: str) -> None:
    """Draw contours that hold `_SHARES` of the posterior of two parameters."""
    from scipy.ndimage import gaussian_filter

    limits = np.array([ax.get_xlim(), ax.get_ylim()])
    x, y = posterior.weighted.draws[:, [i, j]].T
    counts, across, up = np.histogram2d(x, y, _BINS, limits, weights=posterior.weighted.weights)
    # Scott's rule for two dimensions, in bins.
    bins = np.ptp(limits, axis=1) / _BINS
    density = gaussian_filter(
        counts, posterior.std()[[i, j]] * posterior.effective_size ** (-1 / 6) / bins, mode="constant"
    )
    held = np.sort(density, axis=None)[::-1]
    levels = np.unique([held[np.searchsorted(np.cumsum(held), share * held.sum())] for share in _SHARES])
    middles = [0.5 * (edges[1:] + edges[:-1]) for edges in (across, up)]
    ax.contour(*middles, density.T, levels=levels, colors=colour, linewidths=[0.8, 1.2])


def _rounded(mean: float, std: float) -> str:
    """Format ``mean ± std`` with two digits of the standard deviation."""
    if std <= 0:
        return f"{mean:.6g}"
    digits = 1 - math.floor(math.log10(std))
    if -2 <= digits <= 4:
        mean, std, decimals = round(mean, digits) + 0.0, round(std, digits), max(digits, 0)
        return f"{mean:.{decimals}f} ± {std:.{decimals}f}"
    power = math.floor(math.log10(max(abs(mean), std)))
    digits += power
    mean, std = mean / 10.0**power, std / 10.0**power
    return rf"$({round(mean, digits) + 0.0:.{digits}f} \pm {std:.{digits}f})\,10^{{{power}}}$"


def _tidy(axes: NDArray[Any], side: float, small: float) -> None:
    """Make ticks few and small, with labels only at the left and the bottom."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    axes[0, 0].figure.align_ylabels(axes[1:, 0])
    for (row, column), ax in np.ndenumerate(axes):
        if column > row:
            continue
        ax.tick_params(labelsize=small - 1)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(3, prune="both"))
            formatter = ScalarFormatter(useMathText=True)
            formatter.set_powerlimits((-3, 4))
            axis.set_major_formatter(formatter)
            axis.label.set_size(min(small, 130 * side / max(len(axis.label.get_text()), 1)))  # no longer than the panel
            axis.get_offset_text().set_size(small - 1)
        ax.xaxis.get_offset_text().set_visible(row == len(axes) - 1)
        if column == row:
            ax.tick_params(axis="y", left=False, labelleft=False)
        if column > 0 or row == 0:
            ax.tick_params(axis="y", labelleft=False)
            ax.yaxis.get_offset_text().set_visible(False)

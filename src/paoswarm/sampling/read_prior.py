"""Read priors from what users write."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from numbers import Integral, Number
from typing import Any, SupportsFloat

import numpy as np

from paoswarm.sampling.joint_priors import Blocks, is_joint, read_joint
from paoswarm.sampling.laws import LogUniform, Ring, Uniform, finite_ends, uniform_ends
from paoswarm.sampling.prior import Independent, Prior, Transformed, box_of
from paoswarm.space.distributions import is_new_style, old_style
from paoswarm.space.lmfit_parameters import OfParameters, ParametersSpace, are_parameters
from paoswarm.space.names import ByDict, ByName, WithFixed, numbered
from paoswarm.space.variables import Periodic, Real, Variable

_MOST_CIRCLES = 6  # each one triples the number of images in (S12)


def read_prior(prior: Any) -> Prior:
    """Make a `Prior` from what the user gave.

    - A dict (by name) or list of frozen `scipy.stats` distributions, ``(low, high)`` pairs, `Real` or `Periodic`. A
      number is fixed, and no parameter. In a dict a tuple of names may stand for several parameters.
    - A frozen multivariate distribution of `scipy.stats`, or ``(names, distribution)`` with one.
    - ``(names, transform)`` or ``(names, transform, log_density)``, where the transform maps uniform deviates (m, d).

    The number of parameters may stand for their names.
    """
    if isinstance(prior, Prior):
        return prior
    if (joint := _read_joint(prior)) is not None:
        return joint
    free = _free_entries(prior)
    if sum(isinstance(entry, Periodic) for entry in free.values()) > _MOST_CIRCLES:
        raise ValueError(f"prior: no more than {_MOST_CIRCLES} parameters may be Periodic")
    if any(isinstance(names, tuple) for names in free):
        return Blocks(list(_parts(free)))
    laws = [_read_law(name, entry) for name, entry in free.items()]
    return (Independent if any(uniform_ends(law) is None for law in laws) else box_of)(list(free), laws)


def _parts(free: Mapping[Any, Any]) -> Iterator[Prior]:
    """A prior for each tuple of names, and one for names between such."""
    for is_block, several in groupby(free.items(), key=lambda pair: isinstance(pair[0], tuple)):
        if is_block:
            for names, entry in several:
                if (joint := _read_joint((names, *(entry if isinstance(entry, tuple) else (entry,))))) is None:
                    raise TypeError(
                        f"prior {names!r} must be a multivariate distribution or a transform, got {entry!r}"
                    )
                yield joint
        else:
            laws = {name: _read_law(name, entry) for name, entry in several}
            yield Independent(list(laws), list(laws.values()))


def _read_joint(prior: Any) -> Prior | None:
    """A prior that covers all parameters at once; None if each parameter has an entry."""
    if is_joint(prior):
        return read_joint(prior)
    if not isinstance(prior, tuple) or len(prior) not in (2, 3):
        return None
    if len(prior) == 2 and is_joint(prior[1]):
        return read_joint(prior[1], _read_names(prior))
    if not callable(prior[1]) or hasattr(prior[1], "ppf"):
        return None
    if len(prior) == 3 and not callable(prior[2]):
        raise TypeError(f"the prior's log density must be a function of parameters (m, d), got {prior[2]!r}")
    return Transformed(_read_names(prior), *prior[1:])


def _free_entries(prior: Any) -> dict[Any, Any]:
    """The entries of the parameters by name, or by several names, without those that are fixed."""
    names: list[Any]
    if isinstance(prior, Mapping):
        names, entries = [_key(name) for name in prior], list(prior.values())
    elif isinstance(prior, Sequence) and not isinstance(prior, str):
        names, entries = numbered(len(prior)), list(prior)
    else:
        raise TypeError(
            f"prior must be a dict or list of frozen scipy.stats distributions, a frozen multivariate_normal, or "
            f"(names or their number, transform), got {prior!r}{_suggestion(prior)}"
        )
    if not entries:
        raise ValueError("prior is empty; give one entry per parameter")
    _check_names(_flat(names))
    free = {name: entry for name, entry in zip(names, entries, strict=True) if not _is_fixed(prior, entry)}
    if not free:
        raise ValueError("prior: every entry is fixed, so there is no parameter")
    return free


def as_given(fun: Any, prior: Any, *, as_dict: bool = False) -> Any:
    """The function as one of the parameters alone: of names if the prior has them, with fixed values.

    With ``as_dict`` it gets a dict in the place of an array with names.
    """
    if are_parameters(prior):
        return OfParameters(fun, ParametersSpace(prior))
    if isinstance(prior, Mapping):
        fixed = {str(name): entry for name, entry in prior.items() if _is_fixed(prior, entry)}
        names = _flat([_key(name) for name in prior])
        free = [name for name in names if name not in fixed]
        columns = {name: i for i, name in enumerate(free)}
        return ByDict(fun, names, columns, fixed) if as_dict else ByName(fun, columns, fixed)
    if isinstance(prior, Sequence) and any(_is_fixed(prior, entry) for entry in prior):
        return WithFixed(fun, tuple(float(entry) if _is_fixed(prior, entry) else math.nan for entry in prior))
    return fun


def _is_fixed(prior: Any, entry: Any) -> bool:
    """Whether an entry is a value: a number, or beside names a string."""
    is_number = isinstance(entry, SupportsFloat) and isinstance(entry, Number) and math.isfinite(float(entry))
    if isinstance(prior, Mapping):
        return is_number or isinstance(entry, str)
    is_list = isinstance(prior, Sequence) and not isinstance(prior, str | tuple)
    return is_number and is_list and not all(isinstance(other, Number) for other in prior)


def _suggestion(prior: Any) -> str:
    """What to write instead of a distribution or a function that stands alone; empty for anything else."""
    if isinstance(prior, Variable):
        return f"; for a single parameter write [{prior!r}]"
    if hasattr(prior, "ppf"):
        return "; for a single parameter write [distribution], for example [stats.norm(0, 1)]"
    if hasattr(prior, "logpdf"):
        return "; write it with its parameters, for example stats.multivariate_normal(mean, covariance)"
    return "; a transform needs the number of parameters: write (number, transform)" if callable(prior) else ""


def _key(name: Any) -> Any:
    """The name of an entry, or a tuple of names."""
    return tuple(map(str, name)) if isinstance(name, tuple) else str(name)


def _flat(names: Sequence[Any]) -> list[str]:
    """All names, one by one."""
    return [one for name in names for one in (name if isinstance(name, tuple) else [name])]


def _read_names(prior: tuple[Any, ...]) -> list[str]:
    """Names from the first entry of a prior that covers all parameters at once."""
    first = prior[0]
    if isinstance(first, Integral) and not isinstance(first, bool) and int(first) >= 1:
        return numbered(int(first))
    if not isinstance(first, list | tuple) or not first or not all(isinstance(name, str) for name in first):
        raise ValueError(
            f"a prior for all parameters at once begins with their names or their number, for example "
            f"(number of parameters, transform), got {prior!r}"
        )
    _check_names(list(first))
    return list(first)


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"prior: names must differ (compared as text), got {names}")


def _read_law(name: str, entry: Any) -> Any:
    """Check a frozen distribution, or make a uniform one from a pair."""
    if isinstance(entry, Periodic):
        return Ring(entry.low, entry.high)
    if isinstance(entry, Real):
        return LogUniform(entry.low, entry.high) if entry.log else Uniform(entry.low, entry.high)
    if isinstance(entry, Variable):
        raise TypeError(
            f"prior {name!r} is {entry!r}, which is discrete; parameters must be continuous. Sample once for each "
            "value that it can have, with the value fixed, and compare the evidences"
        )
    if is_new_style(entry):
        entry = old_style(name, entry)
    if all(hasattr(entry, method) for method in ("cdf", "sf", "ppf", "isf", "support")):
        _check_distribution(name, entry)
        return entry
    if isinstance(entry, set | frozenset | Mapping):
        raise TypeError(f"prior {name!r} is {entry!r}, which has no order; write a pair (low, high)")
    try:
        low, high = map(float, entry)
    except (TypeError, ValueError):
        if hasattr(entry, "cov") or hasattr(entry, "logpdf"):
            raise TypeError(
                f"prior {name!r} is a multivariate distribution: give it a tuple of names in a dict, such as "
                "{('a', 'b'): distribution}, or for all parameters (names, distribution). Normal, t and Dirichlet laws "
                "and gaussian_kde are known; for others give (names, transform)"
            ) from None
        raise TypeError(
            f"prior {name!r} is {entry!r}; give a frozen distribution or a pair (low, high) for each parameter; for "
            "a single parameter write [(low, high)]"
        ) from None
    return Uniform(*finite_ends(f"prior {name!r} is ", low, high))


def _check_distribution(name: str, law: Any) -> None:
    """Raise unless it is one continuous distribution with numbers for its parameters."""
    if getattr(law, "pmf", None) is not None and not hasattr(getattr(law, "dist", None), "pdf"):
        raise ValueError(f"prior {name!r} is discrete; parameters must be continuous")
    if _lacks_parameters(law):
        shapes = f"{law.shapes}, " if law.shapes else ""
        raise TypeError(
            f"prior {name!r} is scipy.stats.{law.name} without parameters; write "
            f"stats.{law.name}({shapes}loc, scale) with numbers"
        )
    with np.errstate(invalid="ignore"):
        middle = np.asarray(law.ppf(0.5), dtype=float)
    if middle.ndim or not np.isfinite(middle):
        raise ValueError(f"prior {name!r} must be one proper distribution; its median is {middle}")


def _lacks_parameters(law: Any) -> bool:
    """Whether it is a family of distributions of SciPy, such as ``stats.norm``, and not one of its members."""
    if not (hasattr(law, "freeze") and hasattr(law, "shapes")):
        return False
    kind = type(law)  # a histogram, or a distribution of the user's own, may need none
    return bool(law.numargs > 0 or (kind.__module__.startswith("scipy.") and kind.__name__.endswith("_gen")))

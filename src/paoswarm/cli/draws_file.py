"""Posterior draws as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paoswarm.sampling.posterior import Posterior


def check_draws(path: str | None) -> None:
    """Raise if the name does not say how to write draws."""
    if path is not None and Path(path).suffix not in (".csv", ".npz"):
        raise ValueError(f"--draws must end in .csv or .npz, got {path}")


def write_draws(posterior: Posterior, path: str | None) -> None:
    """Write draws of equal weight, with the names of the parameters."""
    if path is None:
        return
    if path.endswith(".csv"):
        np.savetxt(path, posterior.draws, fmt="%.17g", delimiter=",", header=",".join(posterior.names), comments="")
    else:
        known = {"draws": posterior.draws, "log_likelihood": posterior.log_likelihood, "log_prior": posterior.log_prior}
        arrays: dict[str, Any] = {name: values for name, values in known.items() if values is not None}
        np.savez(path, names=np.array(posterior.names), **arrays)

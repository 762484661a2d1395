"""Import packages that are installed only with an extra of paoswarm."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, *, extra: str, user: str) -> Any:
    """Return a module, or raise an ImportError that says who needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{user} needs {package}; install it with: pip install 'paoswarm[{extra}]'") from error

"""Import packages that are installed only with an extra of paoswarm."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def need(module: str, *, extra: str, user: str) -> Any:
    """Return a module, or raise an ImportError that says who needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{user} needs {package}; install it with: pip install 'paoswarm[{extra}]'") from error


def on_first_use(package: str, name: str, module: str, *, needs: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: its one name is imported from a module when it is asked for.

    What it ``needs`` has the same name as the extra that installs it.
    """

    def __getattr__(wanted: str) -> Any:
        if wanted != name:
            raise AttributeError(f"module {package!r} has no attribute {wanted!r}")
        need(needs, extra=needs, user=f"{package}.{name}")
        return getattr(import_module(f"{package}.{module}"), name)

    return __getattr__

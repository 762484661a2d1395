"""``paoswarm info``: versions, extras, and what can evaluate points here. Nothing large is imported."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any

from paoswarm.helpers import cores

_FOR_DEVELOPERS = {"bench", "searchers", "mixed", "samplers", "fitters", "docs", "dev"}
_EXECUTORS = {"dask": "distributed", "ray": "ray", "loky": "loky", "mpi4py": "mpi4py"}  # the package of each


def fill_info(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = "examples:\n  paoswarm info          for people, and for reports of bugs\n  paoswarm info --json\n"
    parser.add_argument("--json", action="store_true", help="write it as JSON")


def run_info(options: argparse.Namespace) -> None:
    """Print what is there."""
    found = gathered()
    if options.json:
        print(json.dumps(found, indent=2))
        return
    rows = [
        *found["versions"].items(),
        ("platform", found["platform"]),
        ("cores", str(found["cores"])),
        ("workers", ", ".join(found["workers"])),
    ]
    width = 2 + max(map(len, found["extras"]))
    print("\n".join(f"{label:<{width}}  {text}" for label, text in rows))
    print("extras")
    for extra, packages in found["extras"].items():
        missing = [name for name, one in packages.items() if one is None]
        there = ", ".join(f"{name} {one}" for name, one in packages.items() if one is not None)
        said = f"missing: {', '.join(missing)} (pip install 'paoswarm[{extra}]')" if missing else there
        print(f"  {extra:<{width - 2}}  {said}")


def gathered() -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "versions": {
            "paoswarm": version("paoswarm"),
            "Python": platform.python_version(),
            "NumPy": version("numpy"),
            "SciPy": version("scipy"),
        },
        "platform": platform.platform(),
        "cores": cores(),
        "workers": [
            f"processes ({multiprocessing.get_start_method()})",
            "threads",
            *(name for name, package in _EXECUTORS.items() if find_spec(package) is not None),
        ],
        "extras": _extras(),
    }


def _extras() -> dict[str, dict[str, str | None]]:
    """The packages of each extra with their versions; None if not installed."""
    found: dict[str, dict[str, str | None]] = {}
    for requirement in requires("paoswarm") or []:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == [\"']([\w-]+)[\"']", requirement)
        if name is None or extra is None or extra[1] in _FOR_DEVELOPERS:
            continue
        packages = found.setdefault(extra[1], {})
        if name[0] == "paoswarm":  # the extras that it includes
            for part in re.findall(r"[\w-]+", requirement.partition("[")[2].partition("]")[0]):
                packages |= found.get(part, {})
        else:
            packages[name[0]] = _version(name[0])
    return found


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None

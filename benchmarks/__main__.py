"""Run a benchmark by name: `python -m benchmarks NAME ...`; without a name, list them.

`make bench NAME=...` does the same in an environment that has what the benchmark needs.
"""

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks():
    """What each script measures, by its name."""
    paths = (path for path in sorted(HERE.glob("[!_]*.py")) if '__name__ == "__main__"' in path.read_text())
    return {path.stem: ast.get_docstring(ast.parse(path.read_text())).splitlines()[0] for path in paths}


def main():
    known = benchmarks()
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        print("\n".join(f"{name:20} {about}" for name, about in known.items()))
        sys.exit(len(sys.argv) > 1)
    name = sys.argv.pop(1)
    sys.path.append(str(HERE))  # at the end: some scripts have names of packages
    runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")


if __name__ == "__main__":
    main()

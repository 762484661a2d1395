"""How long the first use of paoswarm takes, and whose time it is: `make bench NAME=import_time`.

Python's own `-X importtime` gives the time of every module without those that it imports. The table has the smallest
of several runs, in milliseconds, with compiled bytecode: the first run after an installation takes longer.
"""

import os
import re
import subprocess
import sys
from collections import Counter

USES = {
    "import paoswarm": "import paoswarm",
    "ps.minimize": "import paoswarm as ps; ps.minimize",
    "a minimize": "import paoswarm as ps; ps.minimize(lambda x: (x**2).sum(), [(-1, 1)] * 2, maxfev=100)",
    "ps.sample": "import paoswarm as ps; ps.sample",
    "paoswarm info": "from paoswarm.cli import main; main(['info'])",
}
OWNERS = ("paoswarm", "numpy", "scipy")
RUNS = 7


def times(code):
    """Return milliseconds by owner; what is not theirs is Python's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    spent = Counter()
    for own, module in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)", done.stderr, re.MULTILINE):
        spent[module if module in OWNERS else "Python"] += int(own) / 1000
    return spent


def main():
    """Print the table."""
    owners = (*OWNERS, "Python")
    print(f"{'':16}" + "".join(f"{owner:>10}" for owner in owners))
    for use, code in USES.items():
        runs = [times(code) for _ in range(RUNS)]
        print(f"{use:16}" + "".join(f"{min(run[owner] for run in runs):10.0f}" for owner in owners))


if __name__ == "__main__":
    main()

"""``python -m paoswarm.cli`` is the command ``paoswarm``."""

import sys

from paoswarm.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())

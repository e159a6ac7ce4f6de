"""``python -m eptsim``: the same as ``eptsim``."""

import sys

from eptsim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

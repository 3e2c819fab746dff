"""`python -m fedcord`: the command where its script is not on the path."""

import sys

from fedcord.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

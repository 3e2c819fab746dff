"""Lets engines rebuild the algorithms of this folder by the name `tests.checks.<module>`."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)

"""How many cases a fuzz test tries: a few by default, thousands with `make fuzz`."""

import os


def examples(default: int) -> int:
    """`default` times FEDCORD_FUZZ, which `make fuzz` sets."""
    return default * int(os.environ.get("FEDCORD_FUZZ", "1"))

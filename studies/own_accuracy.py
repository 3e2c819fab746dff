"""Accuracy on clients' own test parts, method by method and paired, as a Markdown table.

    python studies/own_accuracy.py runs/analytic-personalisation-a01 --against local-ridge

Only seeds that every listed method has finished are used, so that every difference is paired.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fedcord.statistics import MeanInterval, mean_interval, paired_difference


def results(root: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Method to seed to what the finished run's `result.json` holds."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for path in sorted(root.glob("*/seed-*/result.json")):
        result = json.loads(path.read_text())
        found.setdefault(path.parent.parent.name, {})[result["seed"]] = result
    return found


def table(root: Path, against: str, methods: list[str]) -> str:
    """The rows of one study."""
    found = {name: runs for name, runs in results(root).items() if not methods or name in methods}
    seeds = sorted(set.intersection(*(set(runs) for runs in found.values())))
    base = [found[against][seed]["client_accuracy_mean"] for seed in seeds]
    lines = [
        f"Seeds {', '.join(map(str, seeds))}; 95 % intervals by Student's t.",
        "",
        f"| method | own test parts | difference to {against} | server's test set | bytes up |",
        "|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        own = [runs[seed]["client_accuracy_mean"] for seed in seeds]
        served = [runs[seed]["accuracy"] for seed in seeds]
        up = sum(runs[seed]["bytes_up"] for seed in seeds) / len(seeds)
        gap = paired_difference(own, base).interval if name != against else None
        columns = (
            f"`{name}`",
            _shown(mean_interval(own)),
            "" if gap is None else _shown(gap, signed=True),
            _shown(mean_interval(served)),
            f"{up / 1e6:.1f} MB",
        )
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def _shown(value: MeanInterval, signed: bool = False) -> str:
    text = f"{100 * value.mean:+.1f}" if signed else f"{100 * value.mean:.1f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--against", required=True)
    parser.add_argument("--methods", nargs="*", default=[])
    arguments = parser.parse_args()
    sys.stdout.write(table(arguments.root, arguments.against, arguments.methods))


if __name__ == "__main__":
    main()

"""`fedcord audit RUN`: how well others can tell who was in a finished run, measured."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from typing import TYPE_CHECKING

from fedcord.cli.flags import path
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.audit.audit import Audit

MEANING = (
    "AUC: the chance that a member gets a higher score than a sample nobody trained on; 0.5 is "
    "blind guessing, 1 is certainty; 95 % intervals over candidates. found: members found when one "
    "in a hundred others is taken for one; 1 % is blind guessing. accuracy: of taking the likelier "
    "half for members. limit: what noise leaves to any attack on the sums alone."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("run", type=path, metavar="RUN", help="folder of a finished simulation")
    parser.add_argument(
        "--shadows",
        metavar="N",
        help="federations that the attacker trains for itself, an even number, each as long as the "
        "run (default 4; 0: judge by the loss alone)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="WHAT",
        help="attack only models, or only sums, which takes no training (default both)",
    )
    parser.add_argument(
        "--data-dir", action="append", type=path, metavar="DIR", help="data folder, repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def execute(arguments: argparse.Namespace) -> None:
    """Attack, and show how well it went."""
    from fedcord.audit.audit import PARTS, audit_run
    from fedcord.cli.progress import RunBars
    from fedcord.core.errors import ConfigError, shown

    shadows = 4 if arguments.shadows is None else parse_value(arguments.shadows)
    if isinstance(shadows, bool) or not isinstance(shadows, int):
        raise ConfigError(f"--shadows {shown(shadows)}: must be a whole number, such as 4.")
    with RunBars(hidden=arguments.json) as bars:
        found = audit_run(
            arguments.run,
            arguments.data_dir,
            shadows,
            arguments.only or PARTS,
            bars.steps("federations"),
        )
    if arguments.json:
        sys.stdout.write(json.dumps(found.plain()) + "\n")
        return
    sys.stdout.write(_text(found))


def _text(found: Audit) -> str:
    lines = [
        f"Who was in it? Attacks on {found.algorithm} in '{found.run}', {found.shadows} shadows",
        f"{'':<30}{'AUC':>20}{'found':>10}{'accuracy':>10}  limit",
    ]
    before = ""
    for finding in found.findings:
        target = f"{finding.target} (seen by {finding.seen_by})"
        if target != before:
            lines += ["", target]
        before, rates, limit = target, finding.rates, finding.limit
        area = f"{rates.auc:.3f} [{rates.low:.3f}, {rates.high:.3f}]"
        most = "" if limit is None else f"  AUC {limit.auc:.3f}, found {limit.found:.1%}"
        lines.append(
            f"  {finding.attack:<28}{area:>20}{rates.found:>10.1%}{rates.accuracy:>10.3f}{most}"
        )
    lines += ["", *map(textwrap.fill, (MEANING, *found.notes))]
    return "\n".join(lines) + "\n"

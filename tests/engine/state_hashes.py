"""The table of record: the bits every registered method ends with on a few digits.

A change inside the engines must bring out every hash again; a change of a method shows as a
changed row. `python -m tests.engine.state_hashes` writes the table, with `--engine NAME` it
compares another engine with it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.params import plain
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from tests.checks.registered import registered

TABLE = Path(__file__).with_suffix(".json")

CORRECTED = {
    "accord-ce": "cross-entropy alone, without the contrast of prototypes",
    "fedgmkd": "knowledge is extracted after training",
    "fedgmkd+": "knowledge is extracted after training",
    "fens": "models travel as int8, FedAdam at the server",
    "flare-lpa": "the authors' damping",
}
"""Rows that differ from the first table, and the correction that changed them on purpose."""


def machine() -> str:
    """What decides the last bits beside the code: the build of PyTorch and the processor's kind."""
    return f"torch {torch.__version__.split('+')[0]}, {torch.backends.cpu.get_cpu_capability()}"


def state_hash(name: str, engine: str) -> str:
    """Of a short run: 300 digits, four clients, few steps."""
    algorithm, _ = registered(name)
    config = load_config(
        {
            "algorithm": name,
            "dataset": "digits",
            "partition": "dirichlet:0.5",
            "subset": 300,
            "clients": 4,
            "seed": 3,
            "rounds": 2 if algorithm.traits.rounds is None else None,
            "params": plain(algorithm),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        result = run(config, Place(Path(folder) / "run", engine))
    return str(result["state_hash"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default=None)
    engine = parser.parse_args().engine
    if engine is None:
        hashes = {name: state_hash(name, "sequential") for name in ALGORITHMS}
        content = {"machine": machine(), "corrected": CORRECTED, "hashes": hashes}
        TABLE.write_text(json.dumps(content, indent=1) + "\n")
        return
    recorded = json.loads(TABLE.read_text())["hashes"]
    for name in ALGORITHMS:
        same = state_hash(name, engine) == recorded.get(name)
        sys.stdout.write(f"{'equal  ' if same else 'CHANGED'} {name}\n")


if __name__ == "__main__":
    main()

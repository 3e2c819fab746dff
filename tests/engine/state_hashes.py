"""The table of record: the bits every registered method ends with on a few digits.

A change inside the engines must bring out every hash again; a change of a method shows as a
changed row. `python -m tests.engine.state_hashes` writes the table, with `--engine NAME` it
compares another engine with it.
"""

from __future__ import annotations

import argparse
import hashlib
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
    """What decides the last bits beside the code: the build of PyTorch and the processor.

    Processors of one kind (AVX512, say) are given different kernels, so what this one makes of
    plain operations is part of the name.
    """
    build = torch.__version__.split("+")[0]
    kind = torch.backends.cpu.get_cpu_capability()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as runs have it; bits depend on it
    try:
        return f"torch {build}, {kind}, {_bits_of_plain_operations()}"
    finally:
        torch.set_num_threads(threads)


def _bits_of_plain_operations() -> str:
    """A hash of products, convolutions and their gradients, functions and decompositions."""
    stream = torch.Generator().manual_seed(1)

    def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=stream, dtype=dtype)

    found = []
    for rows, inner, columns in ((4, 64, 10), (32, 64, 32), (75, 128, 64), (300, 65, 65)):
        for dtype in (torch.float32, torch.float64):
            found.append(drawn(rows, inner, dtype=dtype) @ drawn(inner, columns, dtype=dtype))
    for batch, channels in ((32, 1), (64, 4), (7, 8)):
        images = drawn(batch, channels, 8, 8).requires_grad_()
        kernels = drawn(8, channels, 3, 3).requires_grad_()
        made = torch.nn.functional.conv2d(images, kernels, padding=1)
        pooled = torch.nn.functional.max_pool2d(made.relu(), 2).flatten(1)
        loss = torch.log_softmax(pooled, dim=1).square().mean()
        found += [made, *torch.autograd.grad(loss, (images, kernels))]
    samples = drawn(300, 65, dtype=torch.float64)
    gram = samples.T @ samples
    found += [gram, torch.linalg.eigh(gram)[0], torch.linalg.cholesky(gram)]
    found += [torch.linalg.solve(gram, samples[:65]), torch.linalg.qr(samples)[1]]
    found += [samples.float().sum(0), samples.exp().mean(1), samples.float().tanh().norm(dim=0)]
    plain = [tensor.detach().contiguous().numpy().tobytes() for tensor in found]
    return hashlib.sha256(b"".join(plain)).hexdigest()[:12]


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

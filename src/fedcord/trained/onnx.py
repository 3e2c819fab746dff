"""A program for ONNX, by the extra `fedcord[onnx]`."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import torch
from torch.export import ExportedProgram

from fedcord.core.errors import ConfigError

NEEDED = ("onnx", "onnxscript")


def check_onnx() -> None:
    """Refuse to begin where what is needed is not installed."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise ConfigError(
            f"--onnx needs {' and '.join(absent)}, which is not installed; get it with: "
            "pip install 'fedcord[onnx]'."
        )


def onnx_bytes(program: ExportedProgram) -> bytes:
    """The content of an `.onnx` file with the weights inside; the input is called `inputs`."""
    check_onnx()
    made = torch.onnx.export(
        program, dynamo=True, input_names=["inputs"], output_names=["scores"], verbose=False
    )
    assert made is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        made.save(str(path), external_data=False)
        return path.read_bytes()

"""A program for ONNX, by the extra `fedcord[onnx]`."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Iterator
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
    with _quietly():
        try:
            made = torch.onnx.export(
                program, dynamo=True, input_names=["inputs"], output_names=["scores"], verbose=False
            )
        except torch.onnx.OnnxExporterError as error:
            why = str(error.__cause__ or error).splitlines()[0]
            raise ConfigError(
                f"this model cannot be written for ONNX ({why}); leave --onnx out."
            ) from error
        assert made is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            made.save(str(path), external_data=False)
            return path.read_bytes()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without PyTorch's remarks to its own developers, and on packages that are not needed."""
    talker = logging.getLogger("torch.onnx")
    level = talker.level
    talker.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        talker.setLevel(level)

"""The program for ONNX, or what to install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import fedcord as library
from tests.cli.command import fedcord
from tests.trained.runs import IMAGE, TEXT, VECTOR, finished, own_data


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of libraries that onnx uses
@pytest.mark.parametrize(
    ("algorithm", "kind"), [("fedavg", IMAGE), ("afl", VECTOR), ("fedavg", TEXT)]
)
def test_onnx_gives_the_scores_of_the_model(tmp_path: Path, algorithm: str, kind: str) -> None:
    pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    data = own_data(kind)
    finished(tmp_path / "run", algorithm, data)
    done = fedcord("export", "run", "model", "--onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    program = reference.ReferenceEvaluator(str(tmp_path / "model" / "model.onnx"))
    wanted = library.load(tmp_path / "run").scores(data.test.inputs)
    for size in (1, len(wanted)):
        (scores,) = program.run(None, {"inputs": data.test.inputs[:size]})
        np.testing.assert_allclose(scores, wanted[:size], rtol=1e-4, atol=1e-5)


def test_without_the_extra_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name)
    )
    done = fedcord("export", "run", "model", "--onnx", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'fedcord[onnx]'" in done.stderr

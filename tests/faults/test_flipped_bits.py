"""A bit that has flipped in a run folder is found, or it changes nothing: no number is silently
another one."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import FedcordError, NumericalError
from fedcord.experiment.forget import forget_client
from fedcord.experiment.run import Place, run
from fedcord.report.load import load_run
from tests.faults.budget import examples
from tests.faults.small_runs import AVERAGING, PERSONAL, config, content, quick

__all__ = ["quick"]  # a fixture

Reader = Callable[[Path], Any]


def _report(folder: Path) -> Any:
    found = load_run(folder)
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    del values["folder"], values["name"]
    return repr(values), found.partition is not None and found.partition.counts.tolist()


def _resume_personal(folder: Path) -> Any:
    run(config(**PERSONAL), Place(folder, resume=True))
    return content(folder)


def _resume_averaging(folder: Path) -> Any:
    run(config(**AVERAGING), Place(folder, resume=True))
    return content(folder)


def _forget(folder: Path) -> Any:
    done = forget_client(folder, 1)
    kept = json.loads((Path(done.run_dir) / "result.json").read_text())
    shutil.rmtree(done.run_dir)
    return dataclasses.replace(done, run_dir=""), kept


FINISHED: dict[str, Reader] = {"report": _report, "resume": _resume_personal, "forget": _forget}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", FINISHED)
def test_in_a_finished_run(name: str, tmp_path: Path) -> None:
    run(config(**PERSONAL), Place(tmp_path / "whole"))
    shutil.rmtree(tmp_path / "whole" / "plots", ignore_errors=True)
    found = _flip_everywhere(tmp_path, FINISHED[name], harmless=_not_read_by(name))
    assert {"config.toml", "metrics.jsonl", "partition.json", "result.json"} <= found


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("settings", "reader"), [(AVERAGING, _resume_averaging), (PERSONAL, _resume_personal)]
)
def test_in_a_run_that_is_gone_on_with(
    settings: dict[str, Any], reader: Reader, tmp_path: Path
) -> None:
    run(config(**settings), Place(tmp_path / "whole"))
    (tmp_path / "whole" / "result.json").unlink()
    found = _flip_everywhere(tmp_path, reader, harmless=())
    assert {"config.toml", "metrics.jsonl", "partition.json", "provenance.json"} <= found


@pytest.mark.usefixtures("quick")
def test_in_a_run_that_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: object) -> None:
        raise NumericalError("diverged")

    monkeypatch.setattr("fedcord.experiment.run.end_with_clients", diverge)
    with pytest.raises(NumericalError, match="diverged"):
        run(config(**AVERAGING), Place(tmp_path / "whole"))
    found = _flip_everywhere(tmp_path, _report, harmless=("metrics.jsonl", "checkpoints/"))
    assert {"config.toml", "failure.json"} <= found


def _not_read_by(name: str) -> tuple[str, ...]:
    return () if name == "forget" else ("personal.safetensors", "checkpoints/")


def _flip_everywhere(tmp_path: Path, reader: Reader, harmless: tuple[str, ...]) -> set[str]:
    """Flip single bits, each in a fresh copy; the files in which a flip was found out."""
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    shutil.copytree(whole, copy)
    wanted = reader(copy)
    shutil.rmtree(copy)
    draw, found = random.Random(0), set()
    files = [p.relative_to(whole) for p in whole.rglob("*") if p.is_file() and p.stat().st_size]
    for file in files:
        if str(file).startswith(harmless or "\0"):
            continue
        for _ in range(examples(4)):
            shutil.copytree(whole, copy)
            data = bytearray((copy / file).read_bytes())
            place, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
            data[place] ^= bit
            (copy / file).write_bytes(data)
            try:
                assert reader(copy) == wanted, f"bit {bit} of byte {place} of {file}"
            except FedcordError:
                found.add(str(file))
            shutil.rmtree(copy)
    return found

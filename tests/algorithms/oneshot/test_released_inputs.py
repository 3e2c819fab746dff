"""The released code's two accidents with normalisation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.oneshot.released_inputs import normalised_again, not_normalised
from fedcord.cli.main import main
from fedcord.core.task import Task
from fedcord.data.transforms import prepare_fn

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.1)
IMAGES = torch.randint(0, 256, (4, 3, 5, 6), dtype=torch.uint8, generator=torch.Generator())
TASK = Task(10, (3, 5, 6), [], prepare_fn("image", MEAN, STD))


def by_hand(images: Tensor) -> Any:
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, STD))
    return (images - mean) / std


def test_twice_is_the_formula_applied_to_its_own_result() -> None:
    expected = by_hand(by_hand(IMAGES / 255))
    torch.testing.assert_close(normalised_again(TASK.prepare(IMAGES), TASK), expected)


def test_raw_is_the_image_in_zero_to_one() -> None:
    found = not_normalised(TASK.prepare(IMAGES), TASK)
    torch.testing.assert_close(found, IMAGES / 255, atol=1e-6, rtol=0)


@pytest.mark.parametrize("setting", ["local.normalization=twice", "server.test_inputs=raw"])
def test_the_switches_change_a_run(
    tmp_path: Path, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    accuracy = []
    for name, more in (("plain", []), ("parity", ["--set", setting])):
        arguments = ["run", "fafi", "--clients", "3", "--set", "local.epochs=3"]
        code = main([*arguments, *more, "--json", "--out", str(tmp_path / name)])
        assert code == 0
        accuracy.append(json.loads(capsys.readouterr().out)["loss"])
    assert accuracy[0] != accuracy[1]


@pytest.mark.parametrize("setting", ["local.normalization=twice", "server.test_inputs=raw"])
def test_data_without_images_is_refused(
    tmp_path: Path, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "fafi", "--dataset", "synthetic", "--set", setting]
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 2
    assert setting.partition("=")[0] in capsys.readouterr().err

"""Study files that are shipped can be read by this version; running them takes hours."""

from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment.compare import load_study
from fedcord.experiment.run import Place
from fedcord.experiment.study_runs import run_study

FILES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_study_names_settings_that_exist(path: Path) -> None:
    study = load_study(path, {}, ())
    assert study.name == path.stem
    assert len(study.seeds) >= 3
    data = {(c.dataset, c.partition, c.clients, c.subset) for c in study.contenders.values()}
    assert len(data) == 1  # otherwise nothing could be paired
    configs = [config.hash for config in study.contenders.values()]
    assert len(set(configs)) == len(configs)  # two labels for one form would be a mistake


TASK = """
algorithms = ["afl"]
[settings]
dataset = "digits"
subset = 100
clients = 2
[task]
"""


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ('kind = "vector"', "data set 'digits': kind is 'image' there, and the study has 'vector'"),
        ('class_names = ["0", "1"]', "class '2', .* is not among the classes of the study"),
        ("input_shape = 8", r"\[task\] input_shape = 8: must be a list of whole numbers"),
        ("classes = 3", r"unknown entry of \[task\] 'classes'"),
    ],
)
def test_data_must_be_what_a_study_says(tmp_path: Path, entries: str, words: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TASK + entries)
    with pytest.raises(ConfigError, match=words):
        run_study(load_study(path, {}, ()), tmp_path / "runs", Place(None))
    assert not (tmp_path / "runs").exists()


def test_a_task_that_is_stated_truly_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TASK + 'kind = "image"\ninput_shape = [1, 8, 8]\n')
    assert run_study(load_study(path, {}, ()), tmp_path / "runs", Place(None)) == []

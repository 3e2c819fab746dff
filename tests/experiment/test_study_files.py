"""Study files that are shipped can be read by this version; running them takes hours."""

from pathlib import Path

import pytest

from fedcord.experiment.compare import load_study

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

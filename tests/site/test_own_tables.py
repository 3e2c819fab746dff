"""Sites and tables with named columns: rehearsed as simulated, refused where not yet agreed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ConfigError
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from tests.site.in_process import Hospitals

SPEC = "csv:cases.csv?target=ill&client=site"


def write(folder: Path) -> Path:
    lines = [
        f"{'ns'[n % 2]},{n * n % 17},{'ABC'[n % 3] if n % 5 else ''},{'yes' if n % 3 else 'no'}"
        for n in range(60)
    ]
    path = folder / "cases.csv"
    path.write_text("\n".join(["site,age,ward,ill", *lines]))
    return path


def site(folder: Path, client: int, more: str = "") -> Path:
    place = folder / f"site-{client}"
    place.mkdir()
    write(place)
    path = place / "site.toml"
    path.write_text(f'client = {client}\ndata = "{SPEC}"\n{more}')
    return path


def settings(dataset: str, **more: Any) -> dict[str, Any]:
    return {"algorithm": "fedavg", "dataset": dataset, "rounds": 2, "clients": 2, **more}


def test_a_rehearsal_with_a_table_has_the_bits_of_a_simulation(tmp_path: Path) -> None:
    path = write(tmp_path)
    config = load_config(settings(f"csv:{path}?target=ill&client=site", partition="natural:site"))
    simulated = run(config, Place(tmp_path / "simulated"))
    more = 'partition = "natural:site"\nclients = 2\n'
    there = Hospitals({10 + k: site(tmp_path, k, more) for k in range(2)})
    deployed = run(config, Place(tmp_path / "deployed"), sites=there.sites())
    assert deployed["state_hash"] == simulated["state_hash"]
    assert deployed["accuracy"] == simulated["accuracy"]
    assert list(deployed["per_site"].values()) == list(simulated["per_site"].values())


def test_a_table_of_its_own_is_refused_with_advice(tmp_path: Path) -> None:
    there = Hospitals({10: site(tmp_path, 0)})
    config = load_config(settings("sites:cases", clients=1))
    with pytest.raises(ConfigError, match=r"has a table with named columns.*save them as npz:"):
        run(config, Place(tmp_path / "run"), sites=there.sites())
    assert not (tmp_path / "run").exists()

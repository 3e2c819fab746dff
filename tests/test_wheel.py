"""The package as it is published: what its metadata says, what is in it, and that it installs.

Building and installing take minutes and the network, so `make test-wheel` does them; the first
tests need neither.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import fedcord
from tests.cli.command import fedcord_process

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
installs = pytest.mark.skipif(
    "FEDCORD_INSTALL" not in os.environ, reason="make test-wheel builds and installs the package"
)


def test_the_version_is_said_in_one_place(tmp_path: Path) -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    place = PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    assert place == "fedcord.core.version.__version__"
    assert fedcord_process("--version", cwd=tmp_path).stdout == f"fedcord {fedcord.__version__}\n"
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {fedcord.__version__}\n" in citation


def test_metadata_says_what_an_index_shows() -> None:
    project = PROJECT["project"]
    assert {"authors", "keywords", "classifiers", "license", "readme", "description"} <= {*project}
    kinds = {classifier.partition(" :: ")[0] for classifier in project["classifiers"]}
    wanted = {"Development Status", "Intended Audience", "Operating System", "Topic", "Typing"}
    assert wanted <= kinds
    assert (ROOT / project["readme"]).is_file()
    assert all((ROOT / name).is_file() for name in project["license-files"])


def test_every_package_that_tests_and_documentation_need_is_pinned() -> None:
    pinned = {_folded(line.partition("==")[0]) for line in _lines("constraints.txt")}
    for file in ("requirements-dev.txt", "requirements-docs.txt"):
        needed = {_folded(line.partition("[")[0]) for line in _lines(file)}
        assert needed <= pinned, f"{file}: pin {sorted(needed - pinned)} in constraints.txt"


def _lines(name: str) -> list[str]:
    return (ROOT / name).read_text().split()


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- the built package ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel() -> Path:
    (file,) = (ROOT / "dist").glob("fedcord-*.whl")
    return file


@installs
def test_everything_of_the_source_is_in_it(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = [path for path in source.glob("fedcord/**/*") if path.is_file()]
    wanted = {p.relative_to(source).as_posix() for p in files if "__pycache__" not in p.parts}
    assert len(wanted) > 200
    assert sorted(wanted - inside) == []
    assert {name.partition("/")[0] for name in inside} == {
        "fedcord",
        f"fedcord-{fedcord.__version__}.dist-info",
    }


@installs
def test_metadata_in_it_is_whole(wheel: Path) -> None:
    said = _metadata(wheel)
    assert said["Version"] == fedcord.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    assert len(said.get_all("Classifier") or []) == len(PROJECT["project"]["classifiers"])
    extras = set(said.get_all("Provides-Extra") or [])
    assert extras == {*PROJECT["project"]["optional-dependencies"]}


def _metadata(wheel: Path) -> Message:
    name = f"fedcord-{fedcord.__version__}.dist-info/METADATA"
    return message_from_string(zipfile.ZipFile(wheel).read(name).decode())


@installs
def test_it_installs_into_an_empty_environment_and_runs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    there = tmp_path / "venv/bin"
    names = ("PYTHONPATH", "PYTHONHOME")
    plain = {name: value for name, value in os.environ.items() if name not in names}

    def do(*words: str) -> str:
        command = [str(there / words[0]), *words[1:]]
        done = subprocess.run(
            command, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    do("python", "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel))
    do("python", "-m", "pip", "check")
    assert do("fedcord", "--version") == f"fedcord {fedcord.__version__}\n"
    assert "fedavg" in do("fedcord", "list", "algorithms")
    result = json.loads(do("fedcord", "run", "fedavg", "--rounds", "2", "--json"))
    assert result["accuracy"] > 0.2
    compared = do("fedcord", "compare", "fedavg", "afl", "--seeds", "2", "--rounds", "2", "--json")
    assert (tmp_path / json.loads(compared)["report"]).is_file()
    assert sys.prefix not in do("python", "-c", "import fedcord; print(fedcord.__file__)")

"""Code beside the data runs only when the user names it, and never in place of a package."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedcord.cli.main import main
from tests.cli.command import fedcord

EVIL = "from pathlib import Path\nPath('executed').touch()\nraise ImportError('evil')\n"
OWN = (
    "from dataclasses import dataclass\n"
    "from fedcord import FedAvg\n"
    "from fedcord.algorithms.kit.model_exchange import AveragesModels\n\n"
    "@dataclass(frozen=True)\n"
    "class Lazy(AveragesModels):\n"
    "    def client_update(self, shared, memory, data, env):\n"
    "        return FedAvg().client_update(shared, memory, data, env)\n"
)


@pytest.fixture
def path_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_packages_come_before_files_of_the_current_folder(tmp_path: Path) -> None:
    for name in ("numpy", "rich", "torch", "matplotlib", "tomli_w"):
        (tmp_path / f"{name}.py").write_text(EVIL)
    code = "import sys; from fedcord.cli.main import main; sys.exit(main(sys.argv[1:]))"
    for words in (["report", "."], ["inspect", "--clients", "3"], ["list", "models"]):
        subprocess.run(
            [sys.executable, "-P", "-c", code, *words], cwd=tmp_path, check=False,
            capture_output=True,
        )  # fmt: skip
        assert not (tmp_path / "executed").exists(), words


@pytest.mark.parametrize("words", [["list", "datasets"], ["report", "."], ["run", "fedavgg"]])
def test_the_import_path_stays_as_it_is(
    words: list[str], path_is_kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list(sys.path)
    main(words)
    assert sys.path == before
    assert capsys.readouterr()


def test_a_class_the_user_types_is_found_last(
    path_is_kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path_is_kept / "typed_by_me.py").write_text(OWN)
    before = list(sys.path)
    assert main(["list", "algorithms", "typed_by_me:Lazy"]) == 0
    assert sys.path == [*before, str(path_is_kept)]
    assert capsys.readouterr().err == ""


def test_a_class_of_a_study_is_found_too(path_is_kept: Path) -> None:
    (path_is_kept / "named_in_a_study.py").write_text(OWN)
    (path_is_kept / "study.toml").write_text(
        '[settings]\nclients = 0\n[variants.x]\nalgorithm = "named_in_a_study:Lazy"\n'
    )
    done = fedcord("compare", "study.toml", cwd=path_is_kept)
    assert done.returncode == 2
    assert "clients = 0: must be >= 1" in done.stderr
    assert "cannot be imported" not in done.stderr


@pytest.mark.parametrize("words", [["forget", "run", "--client", "0"],
                                   ["report", "run", "--feature-map", "x.svg"]])  # fmt: skip
def test_a_class_of_a_received_run_is_not_taken_from_the_current_folder(
    words: list[str], path_is_kept: Path
) -> None:
    (path_is_kept / "received.py").write_text(EVIL)
    run = path_is_kept / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.toml").write_text('schema = 1\nalgorithm = "received:Thing"\n')
    (run / "result.json").write_text("{}")
    done = fedcord(*words, cwd=path_is_kept)
    assert done.returncode == 2
    assert not (path_is_kept / "executed").exists()


def test_a_module_that_fails_is_a_message_with_its_line(path_is_kept: Path) -> None:
    (path_is_kept / "fails_on_import.py").write_text("x = 1\ny = x / 0\n")
    done = fedcord("run", "fails_on_import:Thing", cwd=path_is_kept)
    assert done.returncode == 2
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "fails_on_import.py:2" in done.stderr
    (path_is_kept / "ends_on_import.py").write_text("raise SystemExit(0)\n")
    assert fedcord("run", "ends_on_import:Thing", cwd=path_is_kept).returncode == 2

"""What is shown while one waits: on a terminal, and nowhere else."""

import pytest

from fedcord.cli.progress import RunBars
from fedcord.experiment.build import build_experiment
from fedcord.experiment.load import load_config


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("total", "words"), [(10_000_000, "5/10"), (None, "5/?")])
def test_a_download_counts_megabytes(
    total: int | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunBars(hidden=False) as bars:
        bars.loading("mnist")(4_200_000, total)
    shown = capsys.readouterr().err
    assert "mnist" in shown
    assert words in shown
    assert "MB fetched" in shown


@pytest.mark.usefixtures("terminal")
def test_a_run_shows_its_download_before_its_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with RunBars(hidden=False) as bars:
        bars.watch("fedavg", 0).download(1, 2_000_000)
    assert "MB fetched" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal")
def test_steps_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with RunBars(hidden=False) as bars:
        bars.steps("dealings")(2, 6)
    assert "2/6" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal")
def test_who_hides_progress_sees_none(capsys: pytest.CaptureFixture[str]) -> None:
    with RunBars(hidden=True) as bars:
        bars.loading("mnist")(1, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("terminal")
def test_several_runs_are_shown_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    config, other = load_config({}), load_config({"seed": 1})
    with RunBars(hidden=False, total_runs=3) as bars:
        study = bars.study()
        first, second = study.begins("fedavg", config), study.begins("fedavg", other)
        first.started(4, 0, ["a client has one class"])
        second.started(4, 0, [])
        first.round(1, 0.5, [])
        first.examples(100)
        second.round(1, 0.25, [])
        study.seconds_left(125.4)
        bars._bars.refresh()
        both = capsys.readouterr().err
        study.ends("fedavg", other, "NumericalError: the loss is [bold]NaN")
        study.seconds_left(3 * 3600.0)
        bars._bars.refresh()
    end = capsys.readouterr().err
    for words in ("0/3", "2 running", "02:05", "fedavg seed 0", "accuracy 0.500", "accuracy 0.250"):
        assert words in both
    assert "fedavg seed 1: NumericalError: the loss is [bold]NaN" in end.replace("\n", " ")
    for words in ("1/3", "1 running, 1 failed", "3:00:00"):
        assert words in end


@pytest.mark.usefixtures("terminal")
def test_failures_are_told_at_once_only_to_who_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with RunBars(hidden=True, total_runs=2) as bars:
        study = bars.study()
        study.begins("fedavg", load_config({}))
        study.ends("fedavg", load_config({}), "NumericalError: NaN")
        study.note("worth knowing")
    assert capsys.readouterr().err == ""


def test_whoever_loads_the_data_is_given_the_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    class ReachedError(Exception):
        pass

    def load(name: str, *, progress: object, **_: object) -> None:
        assert progress is watch
        raise ReachedError(name)

    def watch(held: int, total: int | None) -> None: ...

    monkeypatch.setattr("fedcord.experiment.build.load_dataset", load)
    with pytest.raises(ReachedError, match="mnist"):
        build_experiment(load_config({"dataset": "mnist"}), on_download=watch)

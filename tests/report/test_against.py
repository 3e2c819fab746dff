"""Every algorithm against one that was named beforehand."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from fedcord.cli.main import main
from fedcord.core.errors import ConfigError
from fedcord.report.against import against
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs

StudyWriter = Callable[..., Path]
FAFI = [0.50, 0.55, 0.60, 0.52]
BETTER = [0.70, 0.76, 0.79, 0.73]
NOISE = [0.52, 0.53, 0.61, 0.51]


@pytest.fixture
def study(write_study: StudyWriter) -> Path:
    return write_study({"fafi": FAFI, "better": BETTER, "noise": NOISE})


def test_differences_are_scipys_paired_t_test_with_holm(study: Path) -> None:
    found = {v.row.name: v for v in against(leaderboard(load_runs(study)), "fafi").others}
    raw = {name: ttest_rel(own, FAFI) for name, own in (("better", BETTER), ("noise", NOISE))}
    low, high = sorted(raw, key=lambda name: raw[name].pvalue)
    assert found[low].p_holm == pytest.approx(2 * raw[low].pvalue)
    assert found[high].p_holm == pytest.approx(max(2 * raw[low].pvalue, raw[high].pvalue))
    for name in raw:
        interval = raw[name].confidence_interval(0.95)
        assert found[name].difference.interval.low == pytest.approx(interval.low)
        assert found[name].difference.interval.high == pytest.approx(interval.high)
    assert (found["better"].finding, found["noise"].finding) == ("better", "not shown")


def test_only_what_could_be_tested_is_said_to_be_corrected_for(write_study: StudyWriter) -> None:
    shifted = [value + 0.25 for value in FAFI]
    study = write_study({"fafi": FAFI, "better": BETTER, "shifted": shifted})
    found = against(leaderboard(load_runs(study)), "fafi")
    p_values = {v.row.name: v.p_holm for v in found.others}
    assert p_values["shifted"] is None
    assert p_values["better"] == pytest.approx(ttest_rel(BETTER, FAFI).pvalue)
    assert "with Holm's correction for 1 comparison with fafi" in found.to_markdown()


def test_the_sign_is_the_algorithm_minus_the_baseline(study: Path) -> None:
    found = {v.row.name: v for v in against(leaderboard(load_runs(study)), "better").others}
    assert found["fafi"].difference.mean < 0
    assert found["fafi"].finding == "worse"


def test_the_command_prints_and_writes_the_table(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(study), "--against", "fafi"]) == 0
    written = (study / "against-fafi.md").read_text()
    assert written in capsys.readouterr().out
    assert re.search(r"\| better \| 74\.\d+ \| \+20\.\d+", written)


def test_a_name_that_is_not_there_is_refused_before_anything_is_written(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(study), "--against", "fedavg"]) == 2
    assert "fafi" in capsys.readouterr().err
    assert not (study / "report.html").exists()


def test_one_algorithm_alone_has_nothing_to_be_compared_with(write_study: StudyWriter) -> None:
    board = leaderboard(load_runs(write_study({"fafi": FAFI})))
    with pytest.raises(ConfigError, match="no other algorithm"):
        against(board, "fafi")

"""Several studies against one baseline."""

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind

from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.report.reproduction import reproduction_page
from fedcord.statistics import random_effects, stratified_difference
from fedcord.store.plan_record import WrittenPlan, record_plan
from fedcord.store.study_plan import StudyPlan
from tests.cli.command import fedcord
from tests.report.conftest import assert_refused, write_run, write_studies
from tests.report.test_planned import ABOUT

STUDIES = {
    "low": {"fedavg": [0.50, 0.55, 0.60], "moon": [0.60, 0.66, 0.69], "only": [0.1, 0.2, 0.3]},
    "high": {"fedavg": [0.70, 0.72, 0.71], "moon": [0.78, 0.83, 0.80]},
}


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """Two finished studies with seeds of their own."""
    return write_studies(tmp_path, STUDIES, first_seeds=(0, 3))


def test_the_table_has_each_study_and_all_together(studies: Path) -> None:
    words = ("report", "low", "high", "--against", "fedavg", "--pooled", "all.md")
    done = fedcord(*words, "--json", cwd=studies)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    strata = [
        np.subtract(STUDIES[study]["moon"], STUDIES[study]["fedavg"]).tolist() for study in STUDIES
    ]
    expected = stratified_difference(strata)
    (moon,) = found["others"]
    assert moon["difference"]["mean"] == pytest.approx(expected.mean)
    assert moon["p_holm"] == pytest.approx(expected.t_p)
    assert moon["by_study"] == pytest.approx([np.mean(own) for own in strata])
    text = (studies / "all.md").read_text(encoding="utf-8")
    assert "| digits, dirichlet:0.1 | digits, dirichlet:0.2 |" in text
    assert "| +10.00 | +9.33 | +9.67 |" in text
    assert "Not in every study, left out: only." in text
    assert "share the seeds" not in text
    assert not (studies / "low" / "report.html").exists()


def test_shared_seeds_are_said(studies: Path) -> None:
    write_run(studies / "again", "fedavg", 0, 0.5, partition_hash="x")
    write_run(studies / "again", "fedavg", 1, 0.5, partition_hash="y")
    for seed in (0, 1):
        write_run(studies / "again", "moon", seed, 0.6 + seed / 10, partition_hash="xy"[seed])
    words = ("report", "low", "again", "--against", "fedavg", "--pooled", "all.md")
    assert "one data set share the seeds 0 and 1" in fedcord(*words, cwd=studies).stdout


SCORES = {  # by data set and skew, of two methods under the same three seeds
    ("mnist", "0.1"): ([0.60, 0.66, 0.69], [0.50, 0.55, 0.60]),
    ("mnist", "0.5"): ([0.75, 0.70, 0.74], [0.60, 0.66, 0.61]),
    ("svhn", "0.1"): ([0.41, 0.45, 0.40], [0.40, 0.40, 0.41]),
    ("usps", "0.1"): ([0.91, 0.90, 0.93], [0.70, 0.65, 0.72]),
}


def test_data_sets_are_a_sample_and_skews_of_one_are_one(tmp_path: Path) -> None:
    """Skews with equal seeds are averaged seed by seed, then come data sets."""
    folders = []
    for (data, skew), scores in SCORES.items():
        folders.append(f"{data}-{skew}")
        for name, values in zip(("moon", "fedavg"), scores, strict=True):
            for seed, value in enumerate(values):
                config = {"dataset": data, "partition": f"dirichlet:{skew}"}
                write_run(tmp_path / folders[-1], name, seed, value, config=config)
    words = ("report", *folders, "--against", "fedavg", "--pooled", "all.md", "--json")
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    gaps = {place: np.subtract(*scores) for place, scores in SCORES.items()}
    mnist = (gaps["mnist", "0.1"] + gaps["mnist", "0.5"]) / 2
    units = [mnist, gaps["svhn", "0.1"], gaps["usps", "0.1"]]
    means, variances = [own.mean() for own in units], [own.var(ddof=1) / 3 for own in units]
    (moon,) = json.loads(done.stdout)["others"]
    expected = random_effects(means, variances)
    assert moon["beyond"]["mean"] == pytest.approx(expected.mean)
    assert moon["beyond"]["spread"] == pytest.approx(expected.spread)
    assert moon["beyond"]["interval"]["low"] == pytest.approx(expected.interval.low)
    assert list(moon["by_dataset"].values()) == pytest.approx(means)
    assert moon["beyond_p_holm"] == pytest.approx(expected.p)
    # of these studies: each counts once, so that mnist counts twice
    parts = np.array([4 * variances[0], variances[1], variances[2]])
    freedom = parts.sum() ** 2 / (parts**2 / 2).sum()
    mean = np.mean([own.mean() for own in gaps.values()])
    half = student.ppf(0.975, freedom) * np.sqrt(parts.sum()) / 4
    assert moon["difference"]["mean"] == pytest.approx(mean)
    assert moon["difference"]["interval"]["high"] == pytest.approx(mean + half)
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert "| algorithm | mnist | svhn | usps | data sets like these | 95 % interval | τ |" in text
    assert "3 data sets as a sample" in text
    assert "averaged seed by seed before spreads are taken" in text


def test_a_study_with_a_single_pair_is_not_known_exactly(tmp_path: Path) -> None:
    """It spreads as the other study of its data set does."""
    gaps = {"a": [0.10, 0.16, 0.09], "b": [0.05], "c": [0.01, 0.05, 0.04]}
    for place, (folder, own) in enumerate(gaps.items()):
        config = {"dataset": "svhn" if folder == "c" else "mnist", "partition": f"iid:{folder}"}
        for seed, gap in enumerate(own, start=10 * place):
            for name, score in (("moon", 0.5 + gap), ("fedavg", 0.5)):
                write_run(tmp_path / folder, name, seed, score, config=config)
    words = ("report", *gaps, "--against", "fedavg", "--pooled", "all.md", "--json")
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    spreads = {folder: float(np.var(own, ddof=1)) for folder, own in gaps.items() if len(own) > 1}
    mnist = spreads["a"] / 3 / 4 + spreads["a"] / 1 / 4
    means = [(np.mean(gaps["a"]) + 0.05) / 2, np.mean(gaps["c"])]
    expected = random_effects([float(own) for own in means], [mnist, spreads["c"] / 3])
    (moon,) = json.loads(done.stdout)["others"]
    assert moon["beyond"]["mean"] == pytest.approx(expected.mean)
    assert moon["beyond"]["p"] == pytest.approx(expected.p)


def test_the_same_difference_in_every_seed_is_not_exact_knowledge(tmp_path: Path) -> None:
    """One image more of 359 in each: the differences differ in their last bits."""
    right = {
        "mnist": ([349, 307, 340], [348, 306, 339]),
        "svhn": ([301, 309, 311], [300, 310, 310]),
    }
    for data, scores in right.items():
        for name, values in zip(("moon", "fedavg"), scores, strict=True):
            for seed, value in enumerate(values):
                write_run(tmp_path / data, name, seed, value / 359, config={"dataset": data})
    words = ("report", *right, "--against", "fedavg", "--pooled", "all.md", "--json")
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (moon,) = json.loads(done.stdout)["others"]
    assert moon["beyond"]["p"] == pytest.approx(0.392, abs=5e-4)


def test_the_same_difference_in_every_seed_of_all_studies_is_no_test(tmp_path: Path) -> None:
    """One image more of 10,000 each time: their last bits are all that differs."""
    right = {"mnist": [7654, 7767, 8795, 7222], "svhn": [8567, 5876, 7615, 6892]}
    for data, values in right.items():
        for seed, value in enumerate(values):
            for name, more in (("moon", 1), ("fedavg", 0)):
                score = (value + more) / 10_000
                write_run(tmp_path / data, name, seed, score, config={"dataset": data})
    strata = [[(n + 1) / 10_000 - n / 10_000 for n in own] for own in right.values()]
    assert all(np.ptp(own) > 1e-12 * 1e-4 for own in strata)
    plain = {"question": "Is it?", "primary": ["moon - fedavg"], "seeds": [0], "stopping": "then"}
    for folder in right:
        plan = WrittenPlan(StudyPlan.from_plain(plain), tmp_path / "s.toml")
        record_plan(tmp_path / folder, plan)
    words = ("report", *right, "--against", "fedavg", "--pooled", "all.md", "--json")
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (moon,) = json.loads(done.stdout)["others"]
    assert moon["difference"]["mean"] == pytest.approx(1e-4)
    assert moon["difference"]["t_p"] is None
    assert moon["beyond"]["p"] is None
    assert "correction for 0 comparisons with fedavg" in (tmp_path / "all.md").read_text("utf-8")
    said = "correction for 1 planned comparison. 1 of them not tested, counted as p = 1."
    assert said in (tmp_path / "all.md").read_text(encoding="utf-8")


def test_what_was_planned_of_them_is_said_once(studies: Path) -> None:
    plain = {"question": "Is it?", "primary": ["moon - fedavg"], "seeds": [0], "stopping": "then"}
    for folder in ("low", "high"):
        record_plan(studies / folder, WrittenPlan(StudyPlan.from_plain(plain), studies / "s.toml"))
    words = ("report", "low", "high", "--against", "fedavg", "--pooled", "all.md")
    said = fedcord(*words, cwd=studies).stdout
    assert said.count("Not shown to be planned: its file is not in a git repository") == 1
    assert "Question: Is it? Primary: moon - fedavg." in said


def test_planned_comparisons_are_pooled_and_corrected_for_each_other_alone(tmp_path: Path) -> None:
    """Against SciPy's t tests on one value per data set and seed, and `random_effects`."""
    scores = {
        "mnist": {
            "moon": [0.8, 0.83, 0.85],
            "fedavg": [0.7, 0.74, 0.71],
            "fedprox": [0.6, 0.7, 0.5],
        },
        "svhn": {
            "moon": [0.6, 0.61, 0.67],
            "fedavg": [0.5, 0.49, 0.53],
            "fedprox": [0.6, 0.59, 0.6],
        },
    }
    primary = ["moon - fedprox", "moon - best other"]
    plan = StudyPlan.from_plain(
        {"question": "Is it?", "primary": primary, "seeds": [0, 1, 2], "stopping": "then"}
    )
    for data, methods in scores.items():
        for name, values in methods.items():
            for seed, value in enumerate(values):
                write_run(tmp_path / data, name, seed, value, config={"dataset": data})
        record_plan(tmp_path / data, WrittenPlan(plan, tmp_path / "s.toml"))
    words = ("report", *scores, "--against", "moon", "--pooled", "all.md", "--json")
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    named, best = json.loads(done.stdout)["primary"]
    gaps = {
        other: [np.subtract(own["moon"], own[other]) for own in scores.values()]
        for other in ("fedavg", "fedprox")
    }
    assert (named["against"], best["against"]) == ("fedprox", "fedavg")  # 61.2 and 59.8 %
    beyond, beyond_p, these = {}, {}, {}
    for other, own in gaps.items():
        variances = [gap.var(ddof=1) / 3 for gap in own]
        beyond[other] = random_effects([gap.mean() for gap in own], variances)
        beyond_p[other] = cast(float, beyond[other].p)
        # two independent means of equal weight: Welch's test of one against minus the other
        these[other] = ttest_ind(own[0], -own[1], equal_var=False).pvalue
    assert named["found"]["beyond"]["mean"] == pytest.approx(beyond["fedprox"].mean)
    assert best["found"]["beyond"]["mean"] == pytest.approx(beyond["fedavg"].mean)
    assert best["found"]["these"]["mean"] == pytest.approx(np.mean(gaps["fedavg"]))
    # the best other is beaten only if all are, so both have the p of fedprox, twice by Holm
    assert these["fedprox"] > these["fedavg"]
    assert named["p_holm"] == best["p_holm"] == pytest.approx(2 * these["fedprox"])
    assert beyond_p["fedprox"] > beyond_p["fedavg"]
    p_values = [named["beyond_p_holm"], best["beyond_p_holm"]]
    assert p_values == pytest.approx([min(1, 2 * beyond_p["fedprox"])] * 2)
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert "| moon - best other (fedavg) | +11.50 |" in text
    assert "correction for 2 planned comparisons" in text
    boards = {data: leaderboard(load_runs(tmp_path / data)) for data in scores}
    page = reproduction_page({**ABOUT, "judges": "nothing"}, boards, [], {})
    assert text.splitlines()[2] in page.split("## All parts together")[1]
    assert "mean rank" in page
    alone = reproduction_page({**ABOUT, "judges": "nothing"}, {"a": boards["svhn"]}, [], {})
    assert "All parts together" not in alone


def test_a_planned_comparison_without_its_runs_is_named(studies: Path) -> None:
    primary = ["moon - fedavg", "moon - never-run"]
    values = {"question": "Is it?", "primary": primary, "seeds": [0], "stopping": "then"}
    for folder in ("low", "high"):
        record_plan(studies / folder, WrittenPlan(StudyPlan.from_plain(values), studies / "s.toml"))
    words = ("report", "low", "high", "--against", "fedavg", "--pooled", "all.md")
    said = fedcord(*words, cwd=studies).stdout
    assert "| moon - never-run | – | – | – |" in said
    assert "correction for 2 planned comparisons. 1 of them not tested, counted as p = 1." in said
    strata = [
        np.subtract(STUDIES[study]["moon"], STUDIES[study]["fedavg"]).tolist() for study in STUDIES
    ]
    p = stratified_difference(strata).t_p
    found = json.loads(fedcord(*words, "--json", cwd=studies).stdout)["primary"]
    # what is missing counts: leaving runs out must not make the others easier
    assert found[0]["p_holm"] == pytest.approx(2 * cast(float, p))
    assert found[1]["p_holm"] is None


def test_one_data_set_says_nothing_about_others(studies: Path) -> None:
    words = ("report", "low", "high", "--against", "fedavg", "--pooled", "all.md")
    assert "they say nothing about other data sets" in fedcord(*words, cwd=studies).stdout


def test_equal_seeds_of_different_data_share_nothing(studies: Path) -> None:
    for name, value in (("fedavg", 0.5), ("moon", 0.6)):
        for seed in (0, 1):
            config = {"dataset": "mnist"}
            write_run(
                studies / "other", name, seed, value + seed / 10, partition_hash="x", config=config
            )
    words = ("report", "low", "other", "--against", "fedavg", "--pooled", "all.md")
    done = fedcord(*words, cwd=studies)
    assert done.returncode == 0, done.stderr
    assert "share the seeds" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["low", "--against", "fedavg", "--pooled", "a.md"], "two folders or more"),
        (["low", "high", "--pooled", "a.md"], "--against NAME"),
        (["low", "high", "--against", "only", "--pooled", "a.md"], "'only': not in every study"),
        (["low", "high", "--against", "fedav", "--pooled", "a.md"], "did you mean 'fedavg'?"),
        (["low", "./low", "--against", "fedavg", "--pooled", "a.md"], "named more than once: low"),
        (["low", "high", "--against", "fedavg", "--pooled", "a.csv"], "allowed ending: .md"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(words: list[str], said: str, studies: Path) -> None:
    assert_refused(words, said, studies)

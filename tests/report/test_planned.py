"""Plans in reports: what may be called planned, what was done otherwise, and what came out."""

import json
from html import unescape
from pathlib import Path

import pytest

from fedcord.report.figures import Panels
from fedcord.report.html import render_page
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.reproduction import reproduction_page
from fedcord.report.tables import to_markdown
from fedcord.statistics import holm, paired_difference
from fedcord.store.plan_record import PlanRecord, WrittenPlan, record_plan
from fedcord.store.study_plan import StudyPlan
from tests.report.conftest import StudyWriter

SCORES = {
    "moon": [0.80, 0.84, 0.86],
    "moon-deep": [0.90, 0.93, 0.91],
    "fedavg": [0.70, 0.75, 0.74],
    "fedprox": [0.72, 0.74, 0.75],
}
STARTED = "2026-01-03T10:00:00+00:00"
ABOUT = dict.fromkeys(("study", "title", "source", "scale", "command", "setting", "note"), "x")
PRIMARY = ["moon - fedavg", "moon - best other"]


def plan(**values: object) -> StudyPlan:
    known = {"question": "Is it?", "primary": PRIMARY, "seeds": [0, 1, 2], "stopping": "then"}
    return StudyPlan.from_plain({**known, **values})


def board_of(study: Path, own: StudyPlan, monkeypatch: pytest.MonkeyPatch, day: int) -> Leaderboard:
    """The study with a plan that was committed on that day."""
    found = ("f" * 40, f"2026-01-{day:02}T12:00:00+02:00")
    monkeypatch.setattr("fedcord.store.plan_record._commit_of", lambda _: found)
    record_plan(study, WrittenPlan(own, Path("study.toml")))
    for place, folder in enumerate(sorted(study.glob("*/seed-*"))):
        file = folder / "provenance.json"
        times = [STARTED, "2026-01-04T10:00:00+00:00"]
        values = json.loads(file.read_text()) | {"started": times[place > 0]}
        file.write_text(json.dumps(values))
        if folder.parent.name == "moon-deep":
            config = folder / "config.toml"
            config.write_text(config.read_text().replace('"moon-deep"', '"moon"'))
    return leaderboard(load_runs(study))


def test_only_what_a_commit_said_before_is_planned(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = board_of(write_study(SCORES), plan(), monkeypatch, day=2)
    assert board.plan is not None
    assert board.plan.is_planned
    assert board.plan.deviations == ()
    assert "Planned before the first run: commit ffffffffffff of 2026-01-02" in to_markdown(board)


def test_what_was_written_later_is_said_to_be(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = board_of(write_study(SCORES), plan(seeds=[1, 2, 7]), monkeypatch, day=3)
    assert board.plan is not None
    assert not board.plan.is_planned
    text = to_markdown(board)
    assert "Written after the first run: commit" in text
    assert f"first run {STARTED}" in text
    assert "Seed 7: planned, without a result. Seed 0: run without being planned." in text
    assert board.to_json()["plan"]["is_planned"] is False


def test_a_planned_seed_is_complete_only_where_every_contender_has_finished_it(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is unfinished, one failed, one was never begun."""
    study = write_study(SCORES)
    for name in ("fedavg", "fedprox"):
        (study / name / "seed-2" / "result.json").unlink()
    failure = {"algorithm": "fedprox", "seed": 2, "error": "NumericalError", "message": "NaN"}
    (study / "fedprox" / "seed-2" / "failure.json").write_text(json.dumps(failure))
    own = plan(primary=[*PRIMARY, "moon - never-run"], seeds=[0, 1, 2, 7])
    board = board_of(study, own, monkeypatch, day=2)
    assert board.plan is not None
    assert board.plan.deviations == (
        "Seeds 0 and 1: planned, without a result of never-run.",
        "Seed 2: planned, without a result of fedavg, fedprox and never-run.",
        "Seed 7: planned, without a result.",
    )
    page = reproduction_page({**ABOUT, "judges": "nothing"}, {"all": board}, [], {})
    assert "Not as planned: Seeds 0 and 1: planned, without a result of never-run. Seed 2" in page


def test_planned_comparisons_are_corrected_among_themselves(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = board_of(write_study(SCORES), plan(), monkeypatch, day=2)
    assert board.plan is not None
    named, best = board.plan.results
    against = {name: paired_difference(SCORES["moon"], SCORES[name]) for name in SCORES}
    # a variant of the same algorithm is no other, and every other has to be beaten
    assert best.against == "fedprox"
    assert best.difference is not None
    assert best.difference.mean == pytest.approx(against["fedprox"].mean)
    p_values = [against["fedavg"].t_p, max(against[n].t_p or 0 for n in ("fedavg", "fedprox"))]
    assert [named.p, best.p] == pytest.approx(p_values)
    assert [named.p_holm, best.p_holm] == pytest.approx(holm(p_values))
    assert board.to_json()["plan"]["results"][0]["p"] == pytest.approx(p_values[0])


def test_comparisons_whose_runs_are_missing_are_corrected_for(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else p falls by leaving runs out that were planned."""
    own = plan(primary=["moon - fedavg", "moon - never-run", "never-run - fedavg"])
    board = board_of(write_study(SCORES), own, monkeypatch, day=2)
    assert board.plan is not None
    named, *missing = board.plan.results
    p = paired_difference(SCORES["moon"], SCORES["fedavg"]).t_p
    assert p is not None
    assert 3 * p < 1
    assert named.p_holm == pytest.approx(3 * p)
    assert [result.p_holm for result in missing] == [None, None]
    said = "p with Holm's correction for 3 planned comparisons"
    more = " 2 of them not tested, counted as p = 1."
    assert f"{said}.{more}" in to_markdown(board)
    assert f"{said}.{more}" in unescape(render_page(board, Panels()))
    # where a plan is asked of several parts, each has a correction of its own
    page = reproduction_page({**ABOUT, "judges": "nothing"}, {"a": board, "b": board}, [], {})
    assert page.count(f"{said} of this part alone.{more}") == 2
    page = reproduction_page({**ABOUT, "judges": "nothing"}, {"all": board}, [], {})
    assert f"{said}.{more}" in page


def test_who_is_not_ahead_of_all_others_has_not_beaten_them(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the p of being behind the best is."""
    scores = {**SCORES, "fedprox": [value + 0.02 for value in SCORES["moon"]]}
    scores["fedprox"][0] += 0.0001
    board = board_of(write_study(scores), plan(), monkeypatch, day=2)
    assert board.plan is not None
    _, best = board.plan.results
    assert best.difference is not None
    assert best.difference.mean < 0
    assert (best.difference.t_p or 1) < 0.001
    assert best.p == best.p_holm == 1


def test_the_page_and_the_reproduction_show_it(
    write_study: StudyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = board_of(write_study(SCORES), plan(question="Is <b> it?"), monkeypatch, day=2)
    page = render_page(board, Panels())
    assert "Planned before the first run" in page
    assert "Is &lt;b&gt; it?" in page
    assert "moon - best other (fedprox)" in page
    text = reproduction_page({**ABOUT, "judges": "nothing"}, {"a": board, "b": board}, [], {})
    assert text.count("Planned before the first run") == 1
    assert text.count("| moon - fedavg |") == 2


def test_a_changed_plan_and_one_without_commit(write_study: StudyWriter) -> None:
    study = write_study(SCORES)
    for question in ("Is it?", "Was it?"):
        record_plan(study, WrittenPlan(plan(question=question), study / "study.toml"))
    found = leaderboard(load_runs(study)).plan
    assert found is not None
    assert isinstance(found.record, PlanRecord)
    assert not found.is_planned
    assert found.standing.startswith("Not shown to be planned: its file is not in a git")
    assert found.deviations == ("The plan was changed after runs had begun (2 versions).",)


def test_a_study_without_a_plan_has_none(write_study: StudyWriter) -> None:
    board = leaderboard(load_runs(write_study(SCORES)))
    assert board.plan is None
    assert board.to_json()["plan"] is None

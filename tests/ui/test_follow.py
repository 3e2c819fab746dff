from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedcord.ui.follow import Follower
from tests.ui.conftest import GrowingRun


def only_run(follower: Follower) -> dict[str, Any]:
    (study,) = follower.look()["studies"]
    (run,) = study["runs"]
    assert isinstance(run, dict)
    return run


def test_a_run_is_followed_from_its_first_file_to_its_result(growing: GrowingRun) -> None:
    follower = Follower(growing.folder.parents[2])
    assert follower.look()["studies"] == []
    growing.begin()
    begun = only_run(follower)
    assert (begun["state"], begun["rounds"], begun["total"]) == ("going on", 0, 3)
    assert begun["quiet"] < 60
    growing.add_rounds(1)
    assert (only_run(follower)["rounds"], len(only_run(follower)["curve"])) == (1, 1)
    growing.add_rounds(2, and_half=True)  # the line being written is not there yet
    assert only_run(follower)["rounds"] == 2
    growing.finish()
    ended = only_run(follower)
    assert (ended["state"], ended["rounds"], ended["quiet"]) == ("finished", 3, None)
    result = json.loads((growing.folder / "result.json").read_text())
    assert ended["accuracy"] == result["accuracy"]
    assert [point[0] for point in ended["curve"]] == [1, 2, 3]


def test_a_failure_is_told_with_its_reason(growing: GrowingRun) -> None:
    growing.begin()
    growing.add_rounds(1)
    growing.fail("client 2 sent a loss that is not finite")
    run = only_run(Follower(growing.folder.parents[2]))
    assert (run["state"], run["problem"]) == ("failed", "client 2 sent a loss that is not finite")


def test_notes_that_differ_in_numbers_only_are_one_line(growing: GrowingRun) -> None:
    growing.begin()
    first = json.loads(growing.lines[0])
    notes = [f"client {k}: {8 + k} examples are fewer than local.batch_size" for k in (1, 2, 5)]
    (growing.folder / "metrics.jsonl").write_text(json.dumps(first | {"notes": notes}) + "\n")
    (study,) = Follower(growing.folder.parents[2]).look()["studies"]
    (line,) = study["notes"]
    assert line.startswith("fedavg, seed 0: client 1: 9 examples are fewer")
    assert line.endswith("(and 2 more like it).")


def test_what_cannot_be_read_hides_nothing_else(growing: GrowingRun) -> None:
    growing.begin()
    broken = growing.folder.parent / "seed-1"
    broken.mkdir()
    (broken / "config.toml").write_text("not = [toml")
    (study,) = Follower(growing.folder.parents[2]).look()["studies"]
    good, bad = sorted(study["runs"], key=lambda run: run["state"])
    assert (good["state"], bad["state"]) == ("going on", "unreadable")
    assert "is not TOML" in bad["problem"]
    assert "delete" not in bad["problem"]
    (broken / "config.toml").write_bytes((growing.folder / "config.toml").read_bytes())
    assert {
        run["state"] for run in Follower(growing.folder.parents[2]).look()["studies"][0]["runs"]
    } == {"going on"}


def test_files_that_have_not_changed_are_not_parsed_again(growing: GrowingRun) -> None:
    growing.begin()
    growing.finish()
    follower = Follower(growing.folder.parents[2])
    follower.look()
    (first,) = follower._known.values()
    follower.look()
    (second,) = follower._known.values()
    assert second[1] is first[1]


def test_studies_runs_and_a_run_itself_can_be_watched(growing: GrowingRun) -> None:
    growing.begin()
    names = {}
    for place in (growing.folder, *growing.folder.parents[:3]):
        (study,) = Follower(place).look()["studies"]
        names[place.name] = (study["name"], study["runs"][0]["label"])
    assert names == {
        "seed-0": (".", "."),
        "fedavg": (".", "seed-0"),
        "study": (".", "fedavg"),
        "runs": ("study", "fedavg"),
    }


def test_trials_of_a_tuning_and_links_out_of_the_folder_are_not_shown(
    growing: GrowingRun, finished_run: Path
) -> None:
    growing.begin()
    root = growing.folder.parents[2]
    trial = root / "study" / "tuning" / "fedavg" / "trial-0" / "seed-100"
    trial.mkdir(parents=True)
    (trial / "config.toml").write_bytes((finished_run / "config.toml").read_bytes())
    (root / "study" / "elsewhere").symlink_to(finished_run)
    linked = root / "study" / "linked"
    linked.mkdir()
    (linked / "config.toml").symlink_to(finished_run / "config.toml")
    assert only_run(Follower(root))["label"] == "fedavg"


def test_the_folder_is_left_as_it_is(growing: GrowingRun) -> None:
    growing.begin()
    growing.finish()
    root = growing.folder.parents[2]
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    Follower(root).look()
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before

"""How notes of many runs become few lines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedcord.core.errors import CheckpointError
from fedcord.report.load import load_run
from fedcord.report.notes import Note, gathered, in_one_line, recorded_notes

GRID = [(name, seed) for name in ("a", "b", "c", "d") for seed in range(3)]


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([Note("a", 0, "it is late.")], "a, seed 0: it is late."),
        ([Note(n, s, "it is late") for n, s in GRID], "4 methods × 3 seeds: it is late."),
        ([Note(n, s, "it is late") for n, s in GRID[:7]], "3 methods, 7 runs: it is late."),
        ([Note(n, 0, "late") for n in "ab"], "a and b, seed 0: late."),
        ([Note(n, s, "late") for n in "ab" for s in (0, 1)], "a and b × 2 seeds: late."),
        (
            [Note(n, s, f"client {s} of 5 is empty") for n, s in GRID],
            "4 methods × 3 seeds: client 0 of 5 is empty (a, seed 0; other numbers elsewhere).",
        ),
        (
            [Note("a", 0, "clients 1, 2 and 7 more"), Note("a", 1, "clients 5")],
            "a, 2 seeds: clients 1, 2 and 7 more (seed 0; other numbers elsewhere).",
        ),
        (
            [Note("a", 0, f"client {k} has 1e-{k}") for k in range(4)],
            "a, seed 0: client 0 has 1e-0 (and 3 more like it).",
        ),
        (
            [Note("a", 0, f"client '{name}' ({k}) was late") for k, name in enumerate("ÄB")],
            "a, seed 0: client 'Ä' (0) was late (and 1 more like it).",
        ),
    ],
)
def test_notes_alike_but_for_numbers_are_one(notes: list[Note], expected: str) -> None:
    assert gathered(notes) == (expected,)


def test_different_notes_stay_apart_in_their_order() -> None:
    notes = [Note("a", 0, "x"), Note("a", 0, "y"), Note("a", 1, "x")]
    assert gathered(notes) == ("a, 2 seeds: x.", "a, seed 0: y.")


def test_answers_that_did_not_count_are_noted_with_the_clients_names(
    add_run: Callable[..., Path], tmp_path: Path
) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, rounds=1)
    partition = json.loads((folder / "partition.json").read_text())
    partition["client_names"] = ["Bonn", "Köln", "c", "d", "e"]
    (folder / "partition.json").write_text(json.dumps(partition))
    line = json.loads((folder / "metrics.jsonl").read_text())
    line |= {"missing": {"1": "late: no answer within 2 s"}, "events": ["node 3 was refused"]}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert [note.text for note in recorded_notes(load_run(folder))] == [
        "client 'Köln' (1) was late: no answer within 2 s",
        "node 3 was refused",
    ]
    (folder / "metrics.jsonl").write_text(json.dumps({**line, "missing": {"x": "late"}}) + "\n")
    with pytest.raises(CheckpointError, match="unusable 'missing'"):
        load_run(folder)


def test_all_notes_are_one_line_with_a_count() -> None:
    notes = [Note(name, seed, text) for name in "ab" for seed in (0, 1) for text in ("x", "y")]
    assert in_one_line(notes, "report.html") == (
        "8 notes of 4 runs, of 2 kinds, such as a and b × 2 seeds: x. All: report.html.",
    )
    assert in_one_line(notes[:1], "report.html") == ("a, seed 0: x.",)
    assert in_one_line([], "report.html") == ()
    private = Note("a", 0, "epsilon = 3 of the sums; ENCODERS ARE NOT COVERED")
    assert in_one_line([*notes, private], "report.html") == (
        "a, seed 0: epsilon = 3 of the sums; ENCODERS ARE NOT COVERED.",
        *in_one_line(notes, "report.html"),
    )

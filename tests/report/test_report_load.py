import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedcord.core.errors import CheckpointError
from fedcord.report.load import Failure, load_run, load_runs
from fedcord.store.checksums import FINISHED_FILES, write_checksums

StudyWriter = Callable[..., Path]
HEAD = 'algorithm = "fedavg"\nseed = 0\n'


def test_runs_are_found_at_any_depth_sorted_and_counted(write_study: StudyWriter) -> None:
    study = write_study({"moon": [0.5] * 11, "fedavg": [0.6, 0.7]})
    runs = load_runs(study.parent)
    assert len(runs) == len(list(study.rglob("config.toml"))) == 13
    assert [(run.name, run.seed) for run in runs] == [("fedavg", 0), ("fedavg", 1)] + [
        ("moon", seed) for seed in range(11)
    ]


def test_folders_given_twice_count_once(write_study: StudyWriter) -> None:
    study = write_study({"fedavg": [0.6, 0.7]})
    assert len(load_runs(study, study / "fedavg", study / "fedavg" / "seed-0")) == 2


def test_a_run_holds_what_its_files_say(add_run: StudyWriter, tmp_path: Path) -> None:
    extra = {"per_domain": {"usps": 0.5, "mnist": None}, "client_accuracy": [0.25, None, 0.75]}
    run = load_run(add_run(tmp_path, "fedavg", 3, 0.625, rounds=4, result=extra))
    assert (run.name, run.algorithm, run.seed) == ("fedavg", "fedavg", 3)
    assert run.config["partition"] == "dirichlet:0.1"
    assert run.partition is not None
    assert run.partition.counts.shape == (5, 3)
    assert [entry.round for entry in run.metrics] == [1, 2, 3, 4]
    assert run.result is not None
    assert (run.result.accuracy, run.result.bytes_up, run.result.bytes_down) == (0.625, 4000, 8000)
    # a client without test data has no accuracy; the others' spread is found from an older result
    clients = run.result.measured.clients["accuracy"]
    assert (clients.mean, clients.worst, clients.deviation) == (0.5, 0.25, 0.25)
    assert clients.worst_tenth == pytest.approx(0.30)
    assert run.result.per_group == {"domain": {"usps": 0.5}}
    assert run.provenance["threads"] == 1


def test_the_name_is_the_variant_folder_above_the_seed(
    add_run: StudyWriter, tmp_path: Path
) -> None:
    run = load_run(add_run(tmp_path, "strong-pull", 0, 0.5, config={"algorithm": "fedprox"}))
    assert (run.name, run.algorithm) == ("strong-pull", "fedprox")
    moved = run.folder.rename(tmp_path / "somewhere")
    assert load_run(moved).name == "fedprox"


def test_files_are_compared_with_their_checksums(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5)
    assert not load_run(folder).is_verified
    write_checksums(folder, FINISHED_FILES, {})
    assert load_run(folder).is_verified
    path = folder / "result.json"
    path.write_text(path.read_text().replace('"accuracy": 0.5', '"accuracy": 0.6'))
    with pytest.raises(CheckpointError, match=r"result.json' is not as fedcord wrote it"):
        load_runs(tmp_path)


def test_a_torn_last_line_is_forgiven(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, rounds=3, is_finished=False)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "accur')
    assert [entry.round for entry in load_run(folder).metrics] == [1, 2, 3]


def test_a_torn_middle_line_is_not(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, rounds=3)
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:20], lines[2]]))
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl, line 2, is not JSON; delete"):
        load_run(folder)


def test_rounds_repeated_after_a_resume_count_once(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, rounds=3)
    path = folder / "metrics.jsonl"
    again = json.loads(path.read_text().splitlines()[1]) | {"accuracy": 0.123}
    path.write_text(path.read_text() + json.dumps(again) + "\n")
    metrics = load_run(folder).metrics
    assert [entry.round for entry in metrics] == [1, 2, 3]
    assert metrics[1].accuracy == 0.123


def test_rounds_without_evaluation_and_diverged_losses_are_not_numbers(
    add_run: StudyWriter, tmp_path: Path
) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, rounds=1)
    line = '{"round": 1, "loss": NaN, "bytes_up": 1, "bytes_down": 1, "seconds": 0.1}\n'
    (folder / "metrics.jsonl").write_text(line)
    assert load_run(folder).metrics[0].accuracy is None


def test_a_run_that_only_began_is_unfinished(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, is_finished=False)
    for name in ("partition.json", "metrics.jsonl", "provenance.json"):
        (folder / name).unlink()
    run = load_run(folder)
    assert not run.is_finished
    assert (run.partition, run.metrics) == (None, ())


@pytest.mark.parametrize("name", ["partition.json", "metrics.jsonl", "provenance.json"])
def test_a_finished_run_must_be_complete(add_run: StudyWriter, tmp_path: Path, name: str) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=rf"{name} is missing; delete the folder"):
        load_run(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.toml", "algorithm = ", r"config\.toml is not TOML"),
        ("config.toml", 'algorithm = "fedavg"', r"config\.toml lacks 'seed'"),
        ("result.json", '{"seed": 0', r"result\.json is not JSON"),
        ("result.json", "[]", r"result\.json is not a JSON object"),
        ("result.json", '{"seed": 0}', r"result\.json lacks 'accuracy'"),
        ("result.json", '{"seed": 0, "accuracy": NaN}', "has an unusable 'accuracy'"),
        ("result.json", '{"seed": 0, "accuracy": "high"}', "has an unusable 'accuracy'"),
        ("result.json", '{"seed": 7}', "of seed 7, config.toml beside it of seed 0"),
        ("partition.json", "{}", r"partition\.json lacks 'counts or class_names'"),
        ("partition.json", '{"counts": [[1]]}', r"partition\.json lacks 'counts or class_names'"),
        ("partition.json", '{"counts": [[1]], "class_names": []}', "unusable 'counts'"),
        ("metrics.jsonl", "3\n4\n", "line 1, is not a JSON object"),
        ("provenance.json", "\udcff", r"provenance\.json cannot be read"),
        ("metrics.jsonl", "\udcff\n", r"metrics\.jsonl cannot be read"),
        ("metrics.jsonl", "", r"metrics\.jsonl does not hold the 4 rounds"),
        ("metrics.jsonl", '{"round": 1, "acc', r"metrics\.jsonl, line 1, is not JSON"),
        ("metrics.jsonl", "[" * 100_000, r"metrics\.jsonl, line 1, is not JSON"),
        ("result.json", "[" * 100_000, r"result\.json is not JSON"),
        ("result.json", '{"seed": 0, "accuracy": 1.5}', "has an unusable 'accuracy'"),
        ("result.json", '{"seed": 1' + "0" * 400 + "}", "has an unusable 'seed'"),
        ("result.json", '{"seed": 1' + "0" * 5000 + "}", r"result\.json is not JSON"),
        ("provenance.json", "[]", r"provenance\.json is not a JSON object"),
        ("provenance.json", '{"data_hash": 3}', "has an unusable 'data_hash'"),
        ("provenance.json", '{"packages": ["torch"]}', "has an unusable 'packages'"),
        ("partition.json", '{"counts": [[1]], "class_names": "a"}', "unusable 'class_names'"),
        ("config.toml", HEAD + "dataset = 3", "has an unusable 'dataset'"),
        ("config.toml", HEAD + "model = [3]", "has an unusable 'model'"),
        ("config.toml", HEAD + "params = 3", "has an unusable 'params'"),
        ("config.toml", HEAD + "rounds = 'ten'", "has an unusable 'rounds'"),
        ("config.toml", HEAD + "x = 1" + "0" * 5000, r"config\.toml is not TOML"),
        (
            "config.toml",
            HEAD + "x = " + "[" * 100_000,
            r"config\.toml is not TOML \(brackets are nested",
        ),
    ],
)
def test_unusable_files_are_named(
    add_run: StudyWriter, tmp_path: Path, name: str, content: str, message: str
) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5)
    (folder / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=message):
        load_run(folder)


def test_all_unusable_files_are_named_at_once(write_study: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5] * 4, "moon": [0.5] * 4})
    for path in sorted(study.rglob("provenance.json"))[:7]:
        path.write_text("[]")
    with pytest.raises(CheckpointError, match="not a JSON object") as caught:
        load_runs(study)
    assert str(caught.value).count("provenance.json is not a JSON object") == 5
    assert str(caught.value).endswith("And 2 more.")


def test_a_pipe_is_not_read(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5)
    (folder / "result.json").unlink()
    os.mkfifo(folder / "result.json")
    with pytest.raises(CheckpointError, match=r"result\.json is not a regular file"):
        load_run(folder)


def test_a_run_that_failed_says_why(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 2, 0.5, is_finished=False)
    failure = {"algorithm": "fedavg", "seed": 2, "error": "NumericalError", "message": "NaN"}
    (folder / "failure.json").write_text(json.dumps(failure))
    assert load_run(folder).failure == Failure(2, "NumericalError", "NaN")
    (folder / "failure.json").write_text('{"error": 3}')
    with pytest.raises(CheckpointError, match=r"failure\.json has an unusable 'error'"):
        load_run(folder)


def test_a_run_that_went_on_after_its_failure_has_not_failed(
    add_run: StudyWriter, tmp_path: Path
) -> None:
    folder = add_run(tmp_path, "fedavg", 2, 0.5)
    (folder / "failure.json").write_text("{}")
    assert load_run(folder).failure is None


def test_a_run_without_a_client_says_so_in_its_name(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "strong", 0, 0.5, result={"forgotten": [4, 1]})
    moved = folder.rename(tmp_path / "strong" / "seed-0-without-1-4")
    assert load_run(moved).name == "strong without clients 1, 4"
    folder = add_run(tmp_path, "strong", 0, 0.5, result={"forgotten": []})
    assert load_run(folder).name == "strong"


def test_losses_that_are_not_numbers_are_infinite_and_absent_ones_none(
    add_run: StudyWriter, tmp_path: Path
) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, rounds=4)
    line = {"bytes_up": 1, "bytes_down": 1, "seconds": 0.1}
    losses: list[dict[str, float | None]] = [
        {"train_loss": math.nan},
        {"train_loss": None},
        {"train_loss": 0.5},
        {},
    ]
    lines = [json.dumps({"round": k, **line, **own}) for k, own in enumerate(losses, start=1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    found = [entry.train_loss for entry in load_run(folder).metrics]
    assert found == [math.inf, math.inf, 0.5, None]


def test_files_of_two_runs_are_noticed(add_run: StudyWriter, tmp_path: Path) -> None:
    folder = add_run(tmp_path, "fedavg", 0, 0.5, result={"partition_hash": "another"})
    with pytest.raises(CheckpointError, match=r"partition another, .* two runs are mixed"):
        load_run(folder)


def test_a_place_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no run was found in"):
        load_runs(tmp_path)
    with pytest.raises(CheckpointError, match="is not a folder"):
        load_runs(tmp_path / "absent")

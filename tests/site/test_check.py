"""`fedcord site check`: what would pass and what stays, told where the data is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch import Tensor

from fedcord.core.errors import ConfigError
from fedcord.core.tensors import num_bytes
from fedcord.engine.patience import Patience
from fedcord.engine.requests import MASKING, Parcel, Request, pack_call, unpack_replies
from fedcord.experiment.compare import load_study
from fedcord.experiment.run import Place, run
from fedcord.experiment.survey import survey
from fedcord.experiment.terms import Terms
from fedcord.site.answering import answer_at_site
from fedcord.site.check import check_site
from fedcord.site.site_file import load_site
from fedcord.store.run_folder import RunFolder
from tests.cli.command import fedcord
from tests.site.in_process import Hospitals, own_csvs, own_table, patients, rehearsal

STUDY = """
algorithms = ["accord", "fedhip", "fedavg"]
[settings]
dataset = "sites:tumours"
clients = 3
rounds = 2
[params]
[task]
kind = "vector"
class_names = ["benign", "malignant"]
"""


def _study(folder: Path, text: str = STUDY) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_it_tells_what_really_passes(tmp_path: Path) -> None:
    """Names and bytes of the check are those of a run over the wire."""
    there = Hospitals({k: own_table(tmp_path, k) for k in range(3)})
    study = load_study(_study(tmp_path), {}, ["fedavg:local.epochs=1"])
    site = load_site(there.files[1])
    data, checks = check_site(site, study.contenders, study.stated)
    assert data is not None
    for check in checks:
        assert check.problems == ()
        there.sent.clear()
        result = run(
            study.contenders[check.contender],
            Place(tmp_path / check.contender),
            sites=there.sites(study.stated),
        )
        sent = []
        for node, answer in there.sent:
            replies = unpack_replies(answer)
            assert isinstance(replies, list)
            sent += [reply for reply in replies if node == 1 and reply.verb == "update"]
        told = [part for part in check.rounds for _ in range(part.first, part.last + 1)]
        assert len(told) == len(sent) == result["rounds"]
        for part, reply in zip(told, sent, strict=True):
            names = {message.name: message.shape for message in part.sends}
            assert names == {name: tuple(t.shape) for name, t in reply.tensors.items()}
            assert part.bytes_up == num_bytes(reply.tensors) + 8


def test_a_method_that_gathers_examples_is_refused_everywhere(tmp_path: Path) -> None:
    """By the check, by the server before it asks anybody, and by a site that is asked anyway."""
    there = Hospitals({k: own_table(tmp_path, k) for k in range(3)})
    text = STUDY.replace('"accord", "fedhip", "fedavg"', '"centralised"')
    study = load_study(_study(tmp_path, text), {}, [])
    _, (check,) = check_site(load_site(there.files[1]), study.contenders, study.stated)
    assert "raw data would leave the sites" in check.problems[0]
    with pytest.raises(ConfigError, match="raw data would leave the sites"):
        run(
            study.contenders["centralised"],
            Place(tmp_path / "run"),
            sites=there.sites(study.stated),
        )
    assert there.sent == []
    assert not (tmp_path / "run").exists()
    fine = load_study(_study(tmp_path), {}, []).contenders["fedavg"]
    asked = Terms(fine).to_json().replace('"algorithm": "fedavg"', '"algorithm": "centralised"')
    call = pack_call(Request("hello"), Parcel())
    answer = unpack_replies(answer_at_site(there.files[1], asked, call))
    assert "raw data would leave the sites" in str(answer)


def test_of_masked_rounds_it_tells_what_passes_in_place_of_the_update(tmp_path: Path) -> None:
    there = Hospitals({k: own_table(tmp_path, k) for k in range(3)})
    text = STUDY.replace("rounds = 2", "rounds = 2\nsecure = 0.6")
    study = load_study(_study(tmp_path, text), {}, ["fedavg:local.epochs=1"])
    _, checks = check_site(load_site(there.files[1]), study.contenders, study.stated)
    for check in checks:
        assert check.problems == ()
        out = tmp_path / check.contender
        there.sent.clear()
        run(study.contenders[check.contender], Place(out), sites=there.sites(study.stated))
        sent: dict[int, dict[str, Tensor]] = {}
        for node, answer in there.sent:
            replies = unpack_replies(answer)
            assert isinstance(replies, list)
            for reply in replies:
                if node == 1 and reply.verb in {"update", *MASKING}:
                    sent.setdefault(reply.step, {}).update(reply.tensors)
        told = [part for part in check.rounds for _ in range(part.first, part.last + 1)]
        lines = RunFolder(out).read_metrics()
        for part, tensors, line in zip(told, sent.values(), lines, strict=True):
            assert bool(part.hidden) == ("message" in tensors)
            names = {message.name: message.shape for message in part.sends}
            assert names == {name: tuple(t.shape) for name, t in tensors.items()}
            assert part.bytes_up == num_bytes(tensors) + (0 if part.hidden else 8)
            if part.hidden:  # everybody is told the same
                assert 3 * part.bytes_down == line["bytes_down"]
    accord, fedhip, fedavg = checks
    assert [bool(part.hidden) for part in accord.rounds] == [False, False, True]
    assert "stats.class_count" in fedhip.rounds[0].hidden
    assert fedhip.counting == ()
    assert fedavg.rounds[0].hidden != ()


def test_words_and_bytes(tmp_path: Path) -> None:
    own_table(tmp_path, 1)
    words = ["site", "check", "hospital-1/site.toml", str(_study(tmp_path))]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("client 'hospital 1' (1)", "malignant  35     5           10", "stats.gram"):
        assert text in done.stdout
    said = " ".join(done.stdout.split())
    assert "tells how many examples of each class there are: proto.count, stats.class_count" in said
    assert "stays: every example and label" in said
    values = json.loads(fedcord(*words, "--json", cwd=tmp_path).stdout)
    assert values["fits"] is True
    assert values["counts"]["benign"] == {"train": 37, "validation": 3, "test": 10}
    fedavg = values["contenders"][2]
    assert fedavg["bytes_up"] == 2 * fedavg["rounds"][0]["bytes_up"]
    assert fedavg["counting"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('kind = "vector"', "kind is 'vector' there, and the study has 'image'"),
        ('"malignant"]', "class 'malignant' is not among the classes of the study"),
        ("[params]\n", None),
    ],
)
def test_a_site_that_does_not_fit_is_told_why(
    tmp_path: Path, change: str, words: str | None
) -> None:
    own_table(tmp_path, 1)
    to = {'kind = "vector"': 'kind = "image"', '"malignant"]': '"other"]'}.get(change, change)
    path = _study(tmp_path, STUDY.replace(change, to))
    done = fedcord("site", "check", "hospital-1/site.toml", str(path), cwd=tmp_path)
    if words is None:
        assert done.returncode == 0
    else:
        assert done.returncode == 2
        assert words in done.stderr
        assert "this site would send" not in done.stdout


def test_algorithms_and_flags_in_place_of_a_study(tmp_path: Path) -> None:
    rehearsal(tmp_path, 2)
    words = ["site", "check", "site-2/site.toml", "afl", "--clients", "4"]
    done = fedcord(*words, "--partition", "dirichlet:0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = fedcord(*words, "--partition", "iid", cwd=tmp_path)
    assert done.returncode == 2
    assert "rehearses something else: partition is 'dirichlet:0.5'" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('data = "npz:cases.npz"', "client is missing"),
        ("client = 0", "data is missing"),
        ('client = -1\ndata = "npz:x.npz"', "client = -1: must be >= 0"),
        ('client = 0\ndata = "digits"', "everybody has it, so it is for rehearsals"),
        ('client = 0\ndata = "npz:x.npz"\nseed = 1', "seed belongs to a rehearsal"),
        ('client = 5\ndata = "digits"\npartition = "iid"\nclients = 4', "numbered 0 to 3"),
        ('client = 0\ndata = "npz:x.npz"\ntset = 0.1', "unknown parameter 'tset'"),
        ('client = 0\ndata = "npz:x.npz"\ntest = 1.5', "test = 1.5: must be > 0 and < 1"),
        ('client = 0\ndata = "npz:missing.npz"', "missing.npz"),
    ],
)
def test_mistakes_in_a_site_file(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    done = fedcord("site", "check", "site.toml", "fedavg", "--dataset", "sites:x", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert "Traceback" not in done.stderr


TABLE_STUDY = """
algorithms = ["fedavg", "afl"]
[settings]
dataset = "sites:patients"
clients = 3
rounds = 2
[task]
kind = "table"
class_names = ["no", "yes"]
"""


def test_columns_of_a_table_and_what_a_survey_would_tell(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    words = ["site", "check", "West/site.toml", str(_study(tmp_path, TABLE_STUDY))]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for text in (
        "patient left out identifier",
        "lab input numeric 22.6%",
        "sick target categorical",
        "age how many numbers it has, Σx, and Σ(x − own mean)²; how many cells are missing",
        "ward 4 words and how often each occurs, 1 of them once: sauna",
        "fedavg: this site would send",
    ):
        assert text in said
    values = json.loads(fedcord(*words, "--json", cwd=tmp_path).stdout)
    assert values["fits"] is True
    assert [line["name"] for line in values["table"]["columns"]][:2] == ["patient", "age"]
    there = Hospitals(dict(enumerate(files)))
    config = load_study(tmp_path / "study.toml", {}, []).contenders["fedavg"]
    survey(config, there.sites(), Patience())
    (reply,) = unpack_replies(there.sent[-1][1])  # type: ignore[misc]
    assert values["survey"] == reply.values["sums"]["columns"]  # to the bit what passes


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("age", "2024-02-03", "column 'age' holds dates or times, which mean nothing to a network"),
        ("sick", "maybe", "class 'maybe' is not among the classes of the study"),
    ],
)
def test_a_table_that_does_not_fit_is_told_with_advice(
    tmp_path: Path, column: str, cell: str, words: str
) -> None:
    frame = patients()
    frame[column] = cell
    own_csvs(tmp_path, frame)
    path = _study(tmp_path, TABLE_STUDY)
    done = fedcord("site", "check", "West/site.toml", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "ward" in done.stdout  # the columns are shown all the same
    assert "this site would send" not in done.stdout
    assert fedcord("site", "check", "West/site.toml", str(path), "--json", cwd=tmp_path).stdout

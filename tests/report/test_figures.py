import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from fedcord.core.errors import CheckpointError, ConfigError, DataError
from fedcord.report.alignment import alignment_figure
from fedcord.report.bounds import bounds
from fedcord.report.canvas import inline_svg, save_figure
from fedcord.report.heatmap import heatmap_figure
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.plots import curve, final_figure, score_figure
from fedcord.statistics import share_interval

StudyWriter = Callable[..., Path]
COUNTS = np.array([[5, 0, 120], [0, 7, 3]])


def board_of(study: Path) -> Leaderboard:
    return leaderboard(load_runs(study))


def text_of(path: Path) -> list[str]:
    nodes = ElementTree.fromstring(path.read_text(encoding="utf-8")).iter()
    return [node.text or "" for node in nodes if node.tag.endswith("text")]


def test_the_curve_is_the_mean_over_seeds_with_the_t_interval(write_study: StudyWriter) -> None:
    row = board_of(write_study({"fedavg": [0.5, 0.7]}, rounds=4)).best
    found = curve(row)
    assert found.course.rounds == (1, 2, 3, 4)
    assert list(found.course.exchanged) == [3000, 6000, 9000, 12000]
    assert found.mean[-1] == pytest.approx(60)
    own = share_interval([0.5, 0.7])  # plain t would reach from -67 % to 187 %
    assert own.low is not None
    assert own.high is not None
    assert (found.low[-1], found.high[-1]) == pytest.approx((100 * own.low, 100 * own.high))


def test_rounds_that_only_some_seeds_evaluated_are_not_drawn(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5, 0.7]}, rounds=3)
    path = study / "fedavg" / "seed-0" / "metrics.jsonl"
    path.write_text(path.read_text().replace('"round": 2, "accuracy"', '"round": 2, "skipped"'))
    found = curve(board_of(study).best)
    assert found.course.rounds == (1, 3)
    assert list(found.course.exchanged) == [
        3000,
        9000,
    ]  # traffic of the round in between still counts


@pytest.mark.parametrize("rounds", [1, 3])
def test_no_two_methods_look_the_same(write_study: StudyWriter, rounds: int) -> None:
    study = write_study({f"method-{n:02}": [0.5, 0.6] for n in range(13)}, rounds=rounds)
    (axes,) = score_figure(board_of(study), "rounds").axes
    handles, names = axes.get_legend_handles_labels()
    assert len(names) == 13
    lines: list[Any] = [handle[0] if isinstance(handle, tuple) else handle for handle in handles]
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(looks) == 13


def test_figures_are_saved_by_suffix_with_equal_bytes(
    write_study: StudyWriter, tmp_path: Path
) -> None:
    board = board_of(write_study({"fedavg": [0.5, 0.7], "one-shot": [0.6, 0.61]}))
    for attempt in ("first", "second"):
        save_figure(score_figure(board, "rounds"), tmp_path / attempt / "rounds.svg")
        save_figure(score_figure(board, "bytes"), tmp_path / attempt / "bytes.svg")
        save_figure(final_figure(board), tmp_path / attempt / "final.svg")
        save_figure(heatmap_figure(COUNTS, ("a", "b", "c"), "x"), tmp_path / attempt / "map.svg")
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert len(names) == 4
    for name in names:
        first, second = tmp_path / "first" / name, tmp_path / "second" / name
        assert first.read_bytes() == second.read_bytes()
    save_figure(final_figure(board), tmp_path / "new" / "figure.PNG")
    with Image.open(tmp_path / "new" / "figure.PNG") as image:
        assert (image.format, image.width) == ("PNG", 1080)
    assert not list(tmp_path.rglob(".*"))  # no temporary file stays


@pytest.mark.parametrize("against", ["rounds", "bytes"])
def test_bounds_are_lines_across_the_curves(
    write_study: StudyWriter, tmp_path: Path, against: Literal["rounds", "bytes"]
) -> None:
    study = write_study(
        {"centralised": [0.9, 0.94], "fedavg": [0.5, 0.7], "moon": [0.6, 0.6], "local": [0.2, 0.3]}
    )
    figure = score_figure(board_of(study), against)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    for name, level in (("centralised", 92), ("local", 25)):
        assert np.asarray(lines[name].get_ydata()).tolist() == pytest.approx([level, level])
        assert np.asarray(lines[name].get_xdata()).tolist() == [0, 1]  # from edge to edge
    assert np.size(lines["fedavg"].get_ydata()) == 4
    low, high = figure.axes[0].get_ylim()
    assert low < 25 < 92 < high
    save_figure(figure, tmp_path / "curve.svg")
    assert {"centralised", "local"} <= set(text_of(tmp_path / "curve.svg"))
    save_figure(figure, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").exists()


def test_bounds_are_lines_across_the_final_scores_and_rows_too(write_study: StudyWriter) -> None:
    board = board_of(write_study({"centralised": [0.9, 0.94], "fedavg": [0.5, 0.7]}))
    (axes,) = final_figure(board).axes
    lines = [line for line in axes.lines if line.get_label() == "centralised"]
    assert [np.asarray(line.get_xdata()).tolist() for line in lines] == [pytest.approx([92, 92])]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["fedavg", "centralised"]


def test_bounds_alone_are_curves_like_others(write_study: StudyWriter) -> None:
    board = board_of(write_study({"centralised": [0.9, 0.94], "local": [0.5, 0.7]}))
    lines = {line.get_label(): line for line in score_figure(board, "rounds").axes[0].lines}
    assert np.size(lines["centralised"].get_ydata()) == 4


def test_a_bound_under_a_name_of_ones_own_is_one(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5, 0.7]})
    for seed in (0, 1):
        add_run(study, "ceiling", seed, 0.9, config={"algorithm": "centralised"})
    assert [row.name for row in bounds(board_of(study))] == ["ceiling"]


def test_names_appear_in_the_figures_as_they_are(write_study: StudyWriter, tmp_path: Path) -> None:
    board = board_of(write_study({"$a$ <b> & 方法": [0.5, 0.7], "moon": [0.5, 0.6]}))
    save_figure(final_figure(board), tmp_path / "final.svg")
    assert "$a$ <b> & 方法" in text_of(tmp_path / "final.svg")
    save_figure(score_figure(board, "rounds"), tmp_path / "curve.svg")
    assert "$a$ <b> & 方法" in text_of(tmp_path / "curve.svg")


def test_the_heat_map_shows_counts_sizes_and_names(tmp_path: Path) -> None:
    save_figure(heatmap_figure(COUNTS, ("cat", "dog", "eel"), "two clients"), tmp_path / "map.svg")
    text = text_of(tmp_path / "map.svg")
    assert {"5", "120", "7", "3", "125", "10", "cat", "dog", "eel", "two clients"} <= set(text)
    # clients down, classes across: 2 and 3 of them, and no label for the two absent classes
    assert text.count("0") == 1  # the first client's own number


def test_a_large_heat_map_stays_small_and_without_numbers(tmp_path: Path) -> None:
    counts = np.full((90, 60), 777)
    save_figure(heatmap_figure(counts, [str(c) for c in range(60)], ""), tmp_path / "map.svg")
    assert "777" not in text_of(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size < 200_000


@pytest.mark.parametrize("counts", [np.zeros((0, 3)), np.zeros((2, 2)), np.zeros(3)])
def test_counts_of_another_shape_are_refused(counts: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"needs counts of shape \[clients, classes\]"):
        heatmap_figure(counts, ("a", "b", "c"), "")


def test_empty_clients_can_be_drawn(tmp_path: Path) -> None:
    save_figure(heatmap_figure(np.zeros((2, 2), int), ("a", "b"), ""), tmp_path / "map.png")
    assert (tmp_path / "map.png").exists()


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'figure\.pdf'; allowed endings: \.png, \.svg"):
        save_figure(heatmap_figure(COUNTS, ("a", "b", "c"), ""), tmp_path / "figure.pdf")


def test_an_unwritable_place_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    figure = heatmap_figure(COUNTS, ("a", "b", "c"), "")
    with pytest.raises(ConfigError, match="cannot be written"):
        save_figure(figure, tmp_path / "file" / "map.svg")


def test_inline_figures_follow_the_page_and_point_nowhere() -> None:
    svg = inline_svg(heatmap_figure(COUNTS, ("a", "b", "c"), ""), "clients", 'say "hi" <b>')
    assert 'aria-label="say &quot;hi&quot; &lt;b&gt;"' in svg
    assert "var(--ink)" in svg
    assert "http" not in svg
    ids = [part.split('"')[0] for part in svg.split(' id="')[1:]]
    assert ids
    assert all(name.startswith("clients-") for name in ids)
    assert len(ids) == len(set(ids))


def test_the_users_matplotlib_settings_stay() -> None:
    before = dict(mpl.rcParams)
    heatmap_figure(COUNTS, ("a", "b", "c"), "")
    assert dict(mpl.rcParams) == before


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_the_message_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r'pip install "fedcord\[plots\]"'):
        heatmap_figure(COUNTS, ("a", "b", "c"), "")


def with_lambdas(study: Path, name: str, values: dict[str, float]) -> None:
    """Let the clients of a written run report λ."""
    for path in (study / name).glob("*/metrics.jsonl"):
        metrics = {client: {"lambda_raw": value} for client, value in values.items()}
        text = path.read_text()
        lines = [json.loads(line) | {"client_metrics": metrics} for line in text.splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_strength_of_alignment_is_drawn_for_methods_that_have_one(
    write_study: StudyWriter, tmp_path: Path
) -> None:
    study = write_study({"fafi": [0.5, 0.6], "v12": [0.4, 0.5], "flare": [0.5, 0.5]})
    with_lambdas(study, "v12", {"0": 5.0, "1": 2e5})
    with_lambdas(study, "flare", {"0": 5.0, "1": 9.0})
    figure = alignment_figure(board_of(study))
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["flare", "v12"]
    lines = figure.axes[1].lines
    assert len(lines) == 4  # two clients, two seeds
    assert max(np.max(np.asarray(line.get_ydata())) for line in lines) == 2e5
    assert figure.axes[1].get_yscale() == "log"
    save_figure(figure, tmp_path / "alignment.svg")
    assert "v12" in text_of(tmp_path / "alignment.svg")


def test_without_alignment_there_is_no_such_figure(write_study: StudyWriter) -> None:
    assert alignment_figure(board_of(write_study({"fafi": [0.5, 0.6]}))) is None


def test_a_client_missing_at_a_checkpoint_leaves_a_gap(write_study: StudyWriter) -> None:
    study = write_study({"v12": [0.4, 0.5]})
    with_lambdas(study, "v12", {"0": 5.0, "1": 7.0})
    path = study / "v12" / "seed-0" / "metrics.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first.replace('"1": {"lambda_raw": 7.0}', '"1": {}'), *rest]) + "\n")
    figure = alignment_figure(board_of(study))
    assert figure is not None
    assert [np.size(line.get_ydata()) for line in figure.axes[0].lines] == [4, 3, 4, 4]


def test_lambdas_that_are_no_numbers_are_named(write_study: StudyWriter) -> None:
    study = write_study({"v12": [0.4]})
    with_lambdas(study, "v12", {"0": "much"})  # type: ignore[dict-item]
    with pytest.raises(CheckpointError, match="client_metrics"):
        board_of(study)

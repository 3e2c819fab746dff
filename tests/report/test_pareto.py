"""Accuracy against bytes: who is beaten, what is said about it, and how it is drawn."""

import itertools
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from fedcord.report import build_report, frontier, leaderboard, load_runs, pareto_figure
from fedcord.report.canvas import save_figure
from fedcord.report.frontier import panel_titles
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import FLOOR
from fedcord.report.pareto import COMPLETE, EXCHANGED
from tests.report.conftest import shown, write_run

StudyWriter = Callable[..., Path]
BoardOf = Callable[..., Leaderboard]


@pytest.fixture
def board_of(tmp_path: Path, add_run: StudyWriter) -> BoardOf:
    """A leaderboard from {name: (bytes, accuracies per seed)}."""
    number = itertools.count()

    def make(
        methods: Mapping[str, tuple[int, list[float]]], config: Mapping[str, object] | None = None
    ) -> Leaderboard:
        study = tmp_path / f"study-{next(number)}"
        for name, (num_bytes, values) in methods.items():
            for seed, accuracy in enumerate(values):
                traffic = {"bytes_up": num_bytes - num_bytes // 3, "bytes_down": num_bytes // 3}
                add_run(study, name, seed, accuracy, config=config, result=traffic)
        return leaderboard(load_runs(study))

    return make


def labels(axes: Axes) -> list[Text]:
    return [text for text in axes.texts if text.get_text() and text.get_gid() != FLOOR]


def boxes(axes: Axes) -> list[Bbox]:
    # of the text alone: an annotation's own box would include the way to its point
    return [Text.get_window_extent(text) for text in labels(axes)]


def overlapping(found: list[Bbox]) -> Iterator[tuple[Bbox, Bbox]]:
    for a, b in itertools.combinations(found, 2):
        if a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1:
            yield a, b


def clearly(mean: float) -> list[float]:
    return [mean - 0.001, mean, mean + 0.001]


@pytest.mark.parametrize("seed", range(8))
def test_the_frontier_is_what_comparing_all_pairs_gives(board_of: BoardOf, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # few levels, so that ties in one and in both occur
    methods = {
        f"m{k}": (int(rng.integers(0, 4)) * 1000, [float(rng.integers(5, 9)) / 10])
        for k in range(9)
    }
    unbeaten = set()
    for name, (size, (accuracy,)) in methods.items():
        is_beaten = False
        for other_size, (other_accuracy,) in methods.values():
            no_worse = other_accuracy >= accuracy and other_size <= size
            if no_worse and (other_accuracy, other_size) != (accuracy, size):
                is_beaten = True
        if not is_beaten:
            unbeaten.add(name)
    found = frontier(board_of(methods))
    assert {own.row.name for own in found.best} == unbeaten
    sizes = [own.num_bytes for own in found.best]
    assert sizes == sorted(sizes)


def test_equal_bytes_leave_only_the_more_accurate_and_equals_stay_together(
    board_of: BoardOf,
) -> None:
    methods = {"a": (100, [0.5]), "b": (100, [0.6]), "c": (100, [0.6]), "d": (200, [0.6])}
    found = frontier(board_of(methods))
    assert [own.row.name for own in found.best] == ["b", "c"]
    beaten = {choice.row.name: [row.name for row in choice.beaten_by] for choice in found.choices}
    assert beaten == {"b": [], "c": [], "a": ["b", "c"], "d": ["b", "c"]}
    assert found.close_neighbours == ()


def test_complete_traffic_counts_where_every_run_has_it(tmp_path: Path) -> None:
    # one sends little and leaves every model to be delivered, the other the reverse
    sizes = {"delivers": (100, 900), "exchanges": (500, 500)}
    for name, (up, whole) in sizes.items():
        counted = {"up": whole, "down": 0, "delivery": whole - up}
        add = {"bytes_up": up, "bytes_down": 0, "complete_traffic": counted}
        write_run(tmp_path / "new", name, 0, 0.5, result=add)
        write_run(tmp_path / "mixed", name, 0, 0.5, result=add)
    write_run(tmp_path / "mixed", "old", 0, 0.4, result={"bytes_up": 200, "bytes_down": 0})
    boards = [leaderboard(load_runs(tmp_path / name)) for name in ("new", "mixed")]
    new, mixed = map(frontier, boards)
    assert new.is_complete
    assert {own.row.name: own.num_bytes for own in new.choices} == {
        "exchanges": 500,
        "delivers": 900,
    }
    assert [own.row.name for own in new.best] == ["exchanges"]
    assert "complete traffic" in new.sentence
    assert not mixed.is_complete
    assert [own.row.name for own in mixed.best] == ["delivers"]
    assert pareto_figure(boards[:1]).get_supxlabel() == COMPLETE
    assert pareto_figure(boards).get_supxlabel() == EXCHANGED  # panels share what they count


def test_the_final_round_counts_not_the_best_one(write_study: StudyWriter) -> None:
    # the written curves peak 5 points above their end, one round before it
    study = write_study({"high": [0.80], "low": [0.78]})
    found = frontier(leaderboard(load_runs(study)))
    assert [own.row.name for own in found.best] == ["high"]
    assert found.choices[0].row.score.mean == 0.80


def test_overlapping_intervals_are_said(board_of: BoardOf) -> None:
    spread = board_of(
        {
            "cheap": (100, clearly(0.5)),
            "middle": (1000, [0.60, 0.70, 0.80]),
            "dear": (5000, [0.65, 0.75, 0.85]),
            "beaten": (6000, [0.60, 0.70, 0.81]),
            "lost": (7000, clearly(0.2)),
        }
    )
    found = frontier(spread)
    # half widths of the wide ones are t(0.975, 2) * 0.1 / sqrt(3) = 0.248, so 0.5 is inside
    assert found.close_neighbours == (("cheap", "middle"), ("middle", "dear"))
    assert found.close_losers == ("beaten",)
    assert found.sentence == (
        "Not beaten in both accuracy and bytes: cheap, middle and dear. This rests on means over "
        "3 seeds; 95 % intervals overlap between cheap and middle, middle and dear, and the 95 % "
        "interval of beaten overlaps with all that beats it, so intervals do not settle the order "
        "there."
    )


def test_only_beaten_methods_may_be_in_doubt(board_of: BoardOf) -> None:
    wide = [0.60, 0.70, 0.79]
    found = frontier(board_of({"a": (1, [0.61, 0.7, 0.8]), "b": (2, wide), "c": (2, wide)}))
    assert (found.close_neighbours, found.close_losers) == ((), ("b", "c"))
    assert "the 95 % intervals of b and c overlap with all that beats them, so" in found.sentence
    # beyond doubt against one of those that beat it is beyond doubt
    methods = {"a": (1, [0.61, 0.7, 0.8]), "b": (1, clearly(0.85)), "c": (2, clearly(0.65))}
    assert frontier(board_of(methods)).close_losers == ("a",)


def test_clear_intervals_and_a_single_seed_are_said(board_of: BoardOf) -> None:
    clear = {"a": (1, clearly(0.5)), "b": (2, clearly(0.6)), "c": (3, clearly(0.55))}
    assert frontier(board_of(clear)).sentence == (
        "Not beaten in both accuracy and bytes: a and b. This rests on means over 3 seeds; no 95 % "
        "intervals overlap that could change it."
    )
    single = {name: (size, values[:1]) for name, (size, values) in clear.items()}
    assert frontier(board_of(single)).sentence.endswith("one seed, which has no intervals.")


def test_json_has_points_and_frontier(board_of: BoardOf) -> None:
    methods = {"a": (300, clearly(0.5)), "b": (600, clearly(0.6)), "c": (900, clearly(0.4))}
    values = json.loads(json.dumps(frontier(board_of(methods)).to_json()))
    assert values["frontier"] == ["a", "b"]
    assert [point["algorithm"] for point in values["points"]] == ["a", "b", "c"]
    last = values["points"][2]
    assert (last["bytes"], last["bytes_up"], last["bytes_down"]) == (900, 600, 300)
    assert (last["is_frontier"], last["beaten_by"]) == (False, ["a", "b"])
    assert last["accuracy"]["mean"] == pytest.approx(0.4)


@pytest.mark.parametrize("seed", range(6))
def test_names_overlap_neither_each_other_nor_points(board_of: BoardOf, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, means = 10 ** rng.uniform(5, 7, 12), rng.uniform(0.6, 0.9, 12)
    for k in (3, 7, 11):  # as fedprox beside fedavg: equal bytes, almost equal accuracy
        sizes[k], means[k] = sizes[k - 1], means[k - 1] + 0.002
    methods = {
        f"method-number-{k}": (int(size), [float(mean) - 0.02, float(mean), float(mean) + 0.02])
        for k, (size, mean) in enumerate(zip(sizes, means, strict=True))
    }
    figure = pareto_figure([board_of(methods)])
    (axes,) = figure.axes
    assert sorted(text.get_text() for text in labels(axes)) == sorted(methods)
    found = boxes(axes)
    assert list(overlapping(found)) == []
    area = axes.get_window_extent()
    assert all(area.x0 <= box.x0 and box.x1 <= area.x1 for box in found)
    assert all(area.y0 <= box.y0 and box.y1 <= area.y1 for box in found)
    for size, values in methods.values():
        x, y = axes.transData.transform((size, 100 * float(np.mean(values))))
        assert not any(box.x0 < x < box.x1 and box.y0 < y < box.y1 for box in found)


def test_overlap_is_seen_when_it_is_there(board_of: BoardOf) -> None:
    methods = {"one": (1000, [0.5]), "two": (2000, [0.6]), "three": (1500, [0.4])}
    (axes,) = pareto_figure([board_of(methods)]).axes
    assert list(overlapping(boxes(axes))) == []
    for text in labels(axes):
        text.set_transform(axes.transAxes)
        text.set_position((0, 0))
        text.xy = (1000, 50)  # type: ignore[attr-defined]
    assert len(list(overlapping(boxes(axes)))) == 3


def test_methods_equal_in_both_share_a_label(board_of: BoardOf) -> None:
    methods = {"afl": (1000, [0.8]), "apfl": (1000, [0.8]), "fedavg": (2000, [0.7])}
    (axes,) = pareto_figure([board_of(methods)]).axes
    assert {text.get_text() for text in labels(axes)} == {"afl\napfl", "fedavg"}


def test_a_method_without_traffic_stands_at_the_left_over_0_b(board_of: BoardOf) -> None:
    methods = {"local": (0, clearly(0.4)), "a": (10**5, clearly(0.5)), "b": (10**7, clearly(0.6))}
    (axes,) = pareto_figure([board_of(methods)]).axes
    sizes = [text.get_text() for text in axes.get_xticklabels()]
    assert sizes[0] == "0 B"
    assert "100 kB" in sizes
    assert axes.get_xlim()[0] < axes.get_xticks()[0] < 10**5
    (alone,) = pareto_figure([board_of({"x": (0, [0.4]), "y": (0, [0.5])})]).axes
    assert [text.get_text() for text in alone.get_xticklabels()] == ["0 B"]


def test_gathering_all_data_is_a_line_and_no_choice(board_of: BoardOf) -> None:
    """It would beat everything that leaves data where it is."""
    board = board_of(
        {
            "centralised": (10**4, clearly(0.7)),
            "local": (0, clearly(0.4)),
            "a": (10**5, clearly(0.5)),
            "b": (10**7, clearly(0.6)),
        }
    )
    assert [own.row.name for own in frontier(board).best] == ["local", "a", "b"]
    (axes,) = pareto_figure([board]).axes
    assert any("centralised 70.0 %" in text.get_text() for text in axes.texts)
    across = [np.asarray(line.get_ydata()).tolist() for line in axes.lines]
    assert any(len(ends) == 2 and ends == pytest.approx([70, 70]) for ends in across)


def test_the_frontier_is_drawn_as_steps(board_of: BoardOf) -> None:
    methods = {"a": (1000, [0.5]), "b": (5000, [0.7]), "off": (6000, [0.6])}
    (axes,) = pareto_figure([board_of(methods)]).axes
    line = max(axes.lines, key=lambda line: np.size(line.get_xdata()))
    steps = [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]
    right = axes.get_xlim()[1]
    assert steps == pytest.approx(np.array([(1000, 50), (5000, 50), (5000, 70), (right, 70)]))
    weights = {text.get_text(): text.get_fontweight() for text in labels(axes)}
    assert weights == {"a": "bold", "b": "bold", "off": "normal"}


def test_long_intervals_are_cut_with_an_arrow_and_never_leave_0_to_100(board_of: BoardOf) -> None:
    methods = {"a": (1000, [0.55, 0.95]), "b": (2000, [0.7, 0.71]), "c": (3000, [0.74, 0.76])}
    (axes,) = pareto_figure([board_of(methods)]).axes
    heights = [float(y) for line in axes.lines for y in np.asarray(line.get_ydata())]
    assert min(heights) >= 0
    assert max(heights) <= 100
    bottom, top = axes.get_ylim()
    assert bottom > 0
    arrows = [line for line in axes.lines if line.get_marker() in ("v", "^")]
    ends = {(line.get_marker(), float(np.asarray(line.get_ydata())[0])) for line in arrows}
    assert ends >= {("v", bottom)}
    assert all(0 <= tick <= 100 for tick in axes.get_yticks())
    assert top < 110


def test_panels_share_axes_for_one_data_set_and_colours_always(board_of: BoardOf) -> None:
    first = {"a": (1000, [0.5]), "b": (2000, [0.6])}
    second = {"b": (9000, [0.8]), "c": (4000, [0.3])}
    boards = [board_of(first), board_of(second, {"partition": "dirichlet:0.5"})]
    left, right = pareto_figure(boards).axes
    assert left.get_xlim() == right.get_xlim()
    assert left.get_ylim() == right.get_ylim()
    titles = [axes.get_title(loc="left") for axes in (left, right)]
    assert titles == ["digits, dirichlet:0.1", "digits, dirichlet:0.5"]

    def colour_at(axes: Axes, place: tuple[float, float]) -> object:
        (mark,) = [
            line
            for line in axes.lines
            if np.shape(line.get_xydata()) == (1, 2)
            and np.allclose(np.asarray(line.get_xydata())[0], place)
        ]
        return mark.get_color()

    assert colour_at(left, (2000, 60)) == colour_at(right, (9000, 80))
    assert colour_at(left, (1000, 50)) != colour_at(right, (4000, 30))
    others = [boards[0], board_of(second, {"dataset": "mnist"})]
    left, right = pareto_figure(others).axes
    assert left.get_xlim() != right.get_xlim()


def test_five_boards_make_five_panels(board_of: BoardOf) -> None:
    methods = {"a": (1000, [0.5]), "b": (2000, [0.6])}
    boards = [board_of(methods, {"clients": 5 + k}) for k in range(5)]
    titles = [axes.get_title(loc="left") for axes in pareto_figure(boards).axes]
    assert titles == [f"digits, dirichlet:0.1, clients {5 + k}" for k in range(5)]


def test_long_titles_stay_above_their_panels(board_of: BoardOf) -> None:
    methods = {"a": (1000, [0.5]), "b": (2000, [0.6])}
    board = board_of(methods)
    titles = ["cifar10, dirichlet_overlap:0.05, clients 100, participation 0.1", "digits, iid"]
    left, right = pareto_figure([board, board], titles).axes
    assert left.get_title(loc="left") == (
        "cifar10, dirichlet_overlap:0.05,\nclients 100, participation 0.1"
    )
    assert right.get_title(loc="left") == titles[1]
    title = left._left_title.get_window_extent()  # type: ignore[attr-defined]
    assert title.y0 > left.get_window_extent().y1
    assert title.x1 < right.get_window_extent().x0


def test_titles_leave_out_what_the_methods_of_a_board_differ_in(
    tmp_path: Path, add_run: StudyWriter
) -> None:
    add_run(tmp_path / "one", "a", 0, 0.5, config={"model": "cnn"})
    add_run(tmp_path / "one", "b", 0, 0.5, config={"model": ["cnn", "mlp"]})
    add_run(tmp_path / "two", "a", 0, 0.5, config={"model": ["cnn", "mlp"]})
    boards = [leaderboard(load_runs(tmp_path / name)) for name in ("one", "two")]
    assert panel_titles(boards) == (
        "digits, dirichlet:0.1",
        "digits, dirichlet:0.1, model cnn, mlp",
    )


def test_the_figure_is_saved_with_equal_bytes_and_names_as_they_are(
    board_of: BoardOf, tmp_path: Path
) -> None:
    board = board_of({"$a$ <b> & 方法": (1000, [0.5]), "b": (2000, [0.6]), "c": (3, [0.4])})
    for name in ("first.svg", "second.svg", "third.png"):
        save_figure(pareto_figure([board]), tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    nodes = ElementTree.fromstring((tmp_path / "first.svg").read_text(encoding="utf-8")).iter()
    text = [node.text for node in nodes if node.tag.endswith("text")]
    assert "$a$ <b> & 方法" in text
    assert (tmp_path / "third.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_has_the_figure_only_where_there_is_a_choice(
    board_of: BoardOf, tmp_path: Path
) -> None:
    values = clearly(0.5)
    board_of({"a": (1000, clearly(0.5)), "b": (2000, clearly(0.6)), "c": (900, clearly(0.4))})
    board_of({"a": (1000, values), "b": (1000, clearly(0.6)), "c": (1000, clearly(0.4))})
    board_of({"a": (1000, values), "b": (2000, clearly(0.6))})
    words = "Not beaten in both accuracy and bytes"
    paths = build_report(tmp_path / "study-0")
    assert (tmp_path / "study-0" / "plots" / "pareto.svg") in paths.plots
    page = shown(paths.html.read_text(encoding="utf-8"))
    assert page.count(f"{words}: c, a and b.") == 1
    assert page.count("never of a run stopped early") == 2  # caption and label
    assert page.index("<h2>Costs</h2>") < page.index(words)
    for study in ("study-1", "study-2"):
        paths = build_report(tmp_path / study)
        assert "pareto.svg" not in [path.name for path in paths.plots]
        assert words not in paths.html.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_the_page_still_names_the_frontier(
    board_of: BoardOf, tmp_path: Path
) -> None:
    board_of({"a": (1000, clearly(0.5)), "b": (2000, clearly(0.6)), "c": (900, clearly(0.4))})
    page = build_report(tmp_path / "study-0").html.read_text(encoding="utf-8")
    assert "Not beaten in both accuracy and bytes: c, a and b." in page

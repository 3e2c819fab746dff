"""The rules, on small tables made for each; and what the shipped table must never say."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from fedcord.advice.evidence import Evidence, evidence_from, load_evidence
from fedcord.advice.measures import Measures
from fedcord.advice.recommend import advise
from fedcord.advice.wishes import Wishes
from fedcord.advice.words import advice_text

HERE = Measures("image", "labels", 10, 10, 2000, 0.6, 0.3, 1.0)


def method(algorithm: str, score: float, half: float | None = 1.0, **others: Any) -> dict[str, Any]:
    ends = (None, None) if half is None else (score - half, score + half)
    return {
        "setting": "s",
        "label": algorithm,
        "algorithm": algorithm,
        "model": ["cnn"],
        "exchanges": 20,
        "masked": "none",
        "source": "page.md#a",
        "common": (score, *ends),
    } | others


def comparison(points: float, half: float, p: float | None = None) -> dict[str, Any]:
    return {
        "settings": ["s"],
        "on": "common",
        "label": "new",
        "versus": "fedavg",
        "points": points,
        "low": points - half,
        "high": points + half,
        "p": p,
        "source": "page.md#a",
    }


def table(*methods: dict[str, Any], comparisons: tuple[dict[str, Any], ...] = ()) -> Evidence:
    settings = [
        {
            "name": name,
            "dataset": name,
            "partition": "dirichlet:0.1",
            "longtail": 1.0,
            "seeds": 3,
            "measures": asdict(HERE),
        }
        for name in dict.fromkeys(row["setting"] for row in methods)
    ]
    return evidence_from({"settings": settings, "methods": methods, "comparisons": comparisons})


def best(evidence: Evidence, situation: Measures = HERE, **wishes: Any) -> str | None:
    form = advise(situation, Wishes(**wishes), evidence).form
    return None if form is None else form.words


def test_who_is_shown_to_be_ahead_is_recommended() -> None:
    evidence = table(method("fedavg", 60), method("new", 70))
    advice = advise(HERE, Wishes(), evidence)
    assert advice.form is not None
    assert advice.form.algorithm == "new"
    assert advice.sureness == "shown on one data set"
    assert advice.leads[0].apart == ("s",)


def test_the_baseline_stays_until_something_is_shown_to_beat_it() -> None:
    methods = method("fedavg", 60, None), method("new", 70, None)
    unpaired = advise(HERE, Wishes(), table(*methods))
    assert (unpaired.form and unpaired.form.words, unpaired.sureness) == ("fedavg", "not shown")
    assert unpaired.passed_over is not None
    assert unpaired.passed_over.over.algorithm == "new"
    assert best(table(*methods, comparisons=(comparison(10, 4),))) == "new"
    assert best(table(*methods, comparisons=(comparison(10, 12),))) == "fedavg"
    # the interval leaves out zero, but not after the page's correction
    assert best(table(*methods, comparisons=(comparison(10, 4, 0.4),))) == "fedavg"
    assert best(table(*methods, comparisons=(comparison(10, 4, 0.01),))) == "new"


def test_the_next_that_is_shown_to_beat_the_baseline_comes_first() -> None:
    evidence = table(
        method("fedavg", 60),
        method("wide", 72, 15.0),  # the highest mean, and it may be chance
        method("sure", 70),
    )
    advice = advise(HERE, Wishes(), evidence)
    assert advice.form is not None
    assert (advice.form.words, advice.sureness) == ("sure", "shown against some")
    assert advice.unproven is not None
    assert [form.words for form in advice.unproven[0]] == ["wide"]
    assert advice.passed_over is None
    said = advice_text(advice, "mine", ["--dataset", "mine"], evidence)
    assert "Ranked above it, but not shown to beat fedavg: wide." in said
    assert "fedcord compare sure wide fedavg --dataset mine" in said


def test_unequal_classes_are_compared_by_balanced_accuracy() -> None:
    evidence = table(method("fedavg", 60), method("new", 70))
    uneven = replace(HERE, class_balance=0.5)
    settings = replace(evidence.settings["s"], measures=uneven)
    evidence = replace(evidence, settings={"s": settings})
    said = advice_text(advise(uneven, Wishes(), evidence), "mine", [], evidence)
    assert "classes are unequal (balance 0.50 of 1)" in said
    assert said.endswith("fedcord compare new fedavg --metric balanced_accuracy --seeds 5\n")
    even = table(method("fedavg", 60), method("new", 70))
    assert "unequal" not in advice_text(advise(HERE, Wishes(), even), "mine", [], even)


def test_what_moved_least_is_named_where_nothing_fits() -> None:
    evidence = table(method("a", 90, bytes=3 * 10**6), method("b", 80, bytes=2 * 10**6))
    more = replace(HERE, clients=20, examples=4000)
    advice = advise(more, Wishes(max_bytes=10**6), evidence)
    assert advice.form is None
    assert "What moved least near you: b, 4 MB" in advice_text(advice, "mine", [], evidence)
    assert advise(more, Wishes(personal=True), evidence).least is None


def test_wishes_leave_out_what_does_not_fit() -> None:
    evidence = table(
        method("a", 90, bytes=10**9),
        method("b", 80, masked="part", bytes=10**6),
        method("c", 70, exchanges=1, masked="all"),
        method("d", 60, model=["cnn", "mlp:64"], own=(50, 49, 51)),
    )
    assert best(evidence) == "a"
    assert best(evidence, max_bytes=10**7) == "b"
    assert best(evidence, max_rounds=1) == "c"
    assert best(evidence, private=True) == "c"
    assert best(evidence, mixed_networks=True) == "d"
    assert best(evidence, mixed_networks=True, personal=True) == "d"
    assert best(evidence, personal=True) is None
    advice = advise(HERE, Wishes(private=True, max_bytes=10**7), evidence)
    assert advice.in_the_open == ("b",)
    assert advice.unrecorded == ("c", "d")
    assert advice.form is None
    assert advice.is_any_near


def test_bytes_grow_at_least_with_the_clients() -> None:
    evidence = table(method("a", 90, bytes=10**6), method("b", 80, bytes=10**5))
    more = replace(HERE, clients=20, examples=4000)
    assert best(evidence, max_bytes=10**6) == "a"
    assert best(evidence, more, max_bytes=10**6) == "b"
    fewer = replace(HERE, clients=5, examples=1000)
    assert best(evidence, fewer, max_bytes=10**6 - 1) == "b"


def test_parameters_are_for_what_they_gain() -> None:
    plain, rival = method("a", 80), method("fedavg", 60)
    little = method("a", 80.5, label="a2", params={"width": 8})
    much = method("a", 85, label="a3", params={"width": 9})
    assert best(table(plain, little, rival)) == "a"
    assert best(table(plain, little, much, rival)) == "a (width=9)"


def test_a_published_encoder_is_an_offer_not_a_condition() -> None:
    public = method("a", 95, label="p", published="net", model=["frozen:net"])
    evidence = table(method("a", 80), method("fedavg", 60), public)
    advice = advise(HERE, Wishes(), evidence)
    assert advice.form is not None
    assert advice.form.published is None
    assert advice.with_published is not None
    assert advice.with_published[0].published == "net"
    assert [lead.over.algorithm for lead in advice.leads] == ["fedavg"]
    assert advice.sureness == "shown on one data set"
    alone = advise(HERE, Wishes(), table(method("b", 70), public))
    assert alone.form is not None
    assert alone.form.published == "net"  # one method alone is ahead of nobody


def test_far_from_every_study_nothing_is_recommended() -> None:
    evidence = load_evidence()
    for other in (
        replace(HERE, kind="table"),
        replace(HERE, kind="text"),
        replace(HERE, label_skew=0.0, size_gini=0.0),
        replace(HERE, clients=10_000, examples=2_000_000),
    ):
        advice = advise(other, Wishes(), evidence)
        assert (advice.form, advice.sureness, advice.near) == (None, "no study", ())
        assert advice.nearest[1].too_far_in


def test_what_the_studies_themselves_conclude() -> None:
    """The pages' own verdicts must come out."""
    evidence = load_evidence()
    domains = Measures("image", "domains", 10, 10, 990, 0.17, 0.38, 0.97)
    advice = advise(domains, Wishes(), evidence)
    assert (advice.form and advice.form.words, advice.sureness) == ("fedavg", "not shown")
    mixed = replace(HERE, clients=6, examples=1438, label_skew=0.73)
    assert best(evidence, mixed, mixed_networks=True) == "accord-deep"
    many = replace(HERE, clients=100, examples=5000, label_skew=0.73, size_gini=0.45)
    assert best(evidence, many, max_bytes=130_000_000) == ("accord (selection.max_encoders=1)")

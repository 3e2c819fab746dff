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


def over_fedavg(*settings: str, low: float, p: float) -> dict[str, Any]:
    """Of the settings' mean, ten points."""
    return comparison(10, 10 - low, p) | {"settings": list(settings)}


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


def test_what_a_mean_of_data_sets_shows_is_not_shown_on_each_of_them() -> None:
    methods = [
        method(name, score, setting=setting)
        for name, score in (("fedavg", 60), ("new", 70))
        for setting in "abc"
    ]
    pooled = over_fedavg("a", "b", "c", low=8, p=0.001)
    silent = [over_fedavg(setting, low=-2, p=0.4) for setting in "abc"]
    evidence = table(*methods, comparisons=(pooled, *silent))
    advice = advise(HERE, Wishes(), evidence)
    assert advice.sureness == "shown in the mean of several data sets"
    assert advice.leads[0].is_shown
    assert (advice.leads[0].shown_on, advice.leads[0].unshown_on) == ((), ("a", "b", "c"))
    said = advice_text(advice, "mine", [], evidence)
    assert "How sure: shown in the mean of several data sets; not on a, b and c alone." in said
    assert (
        "shown in the mean of several data sets: +10.0 points [8.0, 12.0] over 3 settings of 3 "
        in said
    )
    assert said.count("    but not shown: +10.0 points [−2.0, 22.0] on ") == 3

    own = over_fedavg("a", low=5, p=0.01)
    evidence = table(*methods, comparisons=(pooled, own, *silent[1:]))
    advice = advise(HERE, Wishes(), evidence)
    assert (advice.sureness, advice.leads[0].shown_on) == ("shown on one data set", ("a",))
    said = advice_text(advice, "mine", [], evidence)
    assert "How sure: shown on one data set; not on b and c alone." in said
    assert "shown on a: +10.0 points [5.0, 15.0] on a, p ≤ 0.010" in said

    # of c nothing says "not shown", and the methods' own intervals lie apart there
    advice = advise(HERE, Wishes(), table(*methods, comparisons=(pooled, own, silent[1])))
    assert advice.sureness == "shown on several data sets"
    assert (advice.leads[0].shown_on, advice.leads[0].unshown_on) == (("a", "c"), ("b",))


def test_a_mean_with_far_data_sets_shows_no_lead_where_there_is_none() -> None:
    near = method("fedavg", 60), method("new", 70), method("wide", 72, 15.0)
    far = method("wide", 20, setting="far"), method("new", 60, setting="far")
    pooled = over_fedavg("s", "far", low=8, p=0.001) | {"versus": "wide"}
    evidence = table(*near, *far, comparisons=(pooled,))
    elsewhere = replace(evidence.settings["far"], measures=replace(HERE, kind="text"))
    evidence = replace(evidence, settings={**evidence.settings, "far": elsewhere})
    leads = {lead.over.words: lead for lead in advise(HERE, Wishes(), evidence).leads}
    assert leads["wide"].points == -2
    assert leads["wide"].shown_by
    assert not leads["wide"].is_shown


def test_a_p_value_that_was_rounded_to_the_limit_shows_nothing() -> None:
    methods = method("fedavg", 60, None), method("new", 70, None)
    assert best(table(*methods, comparisons=(comparison(10, 4, 0.05),))) == "fedavg"
    assert best(table(*methods, comparisons=(comparison(10, 4, 0.049),))) == "new"


def test_the_untrained_form_is_shown_beside_the_leads() -> None:
    untrained: dict[str, Any] = {"label": "random-deep", "params": {"training": "random"}}
    evidence = table(
        method("accord-deep", 70), method("fedavg", 60), method("accord-deep", 69.5, **untrained)
    )
    advice = advise(HERE, Wishes(), evidence)
    assert advice.form is not None
    assert advice.form.words == "accord-deep"
    assert advice.sureness == "shown on one data set"  # which is about other algorithms
    said = advice_text(advice, "mine", [], evidence)
    assert (
        "over the same untrained, accord-deep (training=random): +0.5 points in 1 near setting; "
        "not shown by a paired comparison"
    ) in said
    command = "fedcord compare accord-deep fedavg afl-deep --set afl-deep:features.networks=10"
    assert command in said
    trained = advise(HERE, Wishes(), table(method("accord-deep", 70), method("fedavg", 60)))
    assert trained.untrained is None
    assert "untrained" not in advice_text(trained, "mine", [], evidence)


def test_a_control_is_recommended_only_by_what_it_gains() -> None:
    rival, trained = method("fedavg", 60), method("a", 70, bytes=10)
    control: dict[str, Any] = {"label": "control", "params": {"training": "random"}}
    assert best(table(rival, trained, method("a", 70.9, bytes=1, **control))) == "a"
    better = table(rival, trained, method("a", 71.5, bytes=1, **control))
    assert best(better) == "a (training=random)"
    assert advise(HERE, Wishes(), better).untrained is None
    wide = method("a", 70, label="w", params={"width": 8}, bytes=10)
    both: dict[str, Any] = {"label": "control", "params": {"aside": 1, "training": "random"}}
    assert best(table(rival, wide, method("a", 70.5, bytes=10, **both))) == "a (width=8)"


def test_a_control_does_not_stand_in_for_what_it_controls() -> None:
    control: dict[str, Any] = {"label": "control", "params": {"training": "random"}, "setting": "t"}
    evidence = table(
        method("a", 70),
        method("fedavg", 60),
        method("a", 90, **control),
        method("b", 50, setting="t"),
    )
    (over,) = advise(HERE, Wishes(), evidence).leads
    assert over.over.algorithm == "fedavg"


def test_the_limits_say_what_shown_is_about() -> None:
    evidence = table(method("fedavg", 60), method("new", 70))
    said = advice_text(advise(HERE, Wishes(), evidence), "mine", [], evidence)
    assert "'Shown' is about the settings that were measured" in said
    assert "little of it is shown for others" in said


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
    skin = evidence.settings["accord-main ham10000 0.05"].measures
    advice = advise(skin, Wishes(), evidence)
    assert (advice.form and advice.form.words) == "accord-deep"
    assert advice.sureness == "shown in the mean of several data sets"
    assert advice.untrained is not None
    assert advice.untrained.points < 0
    assert not advice.untrained.is_shown
    domains = Measures("image", "domains", 10, 10, 990, 0.17, 0.38, 0.97)
    advice = advise(domains, Wishes(), evidence)
    assert (advice.form and advice.form.words, advice.sureness) == ("fedavg", "not shown")
    mixed = replace(HERE, clients=6, examples=1438, label_skew=0.73)
    assert best(evidence, mixed, mixed_networks=True) == "accord-deep"
    many = replace(HERE, clients=100, examples=5000, label_skew=0.73, size_gini=0.45)
    assert best(evidence, many, max_bytes=130_000_000) == ("accord (selection.max_encoders=1)")

"""An advice as people read it, and as programs do. Every figure stands with its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fedcord.advice.command import has_unequal_classes, settling_command
from fedcord.advice.evidence import Comparison, Evidence, Figure, Measured
from fedcord.advice.measures import Measures
from fedcord.advice.recommend import Advice, Lead, Near
from fedcord.advice.wishes import expected_bytes
from fedcord.report.numbers import byte_size, counted, fixed, listed

MOST_RIVALS, MOST_ROWS, MOST_SETTINGS = 4, 3, 3
LIMITS = (
    "All settings here are of images, with small networks and a few thousand examples on a CPU; "
    "larger networks, more data and more rounds are not in this table. 'Shown' is about the "
    "settings that were measured: data sets differ so much that little of it is shown for others."
)


def advice_text(advice: Advice, data: str, data_words: Sequence[str], evidence: Evidence) -> str:
    """A page for the terminal."""
    blocks = [f"{data}: {_measures(advice.situation)}"]
    if advice.form is None:
        blocks += [_nothing_near(advice)]
    else:
        blocks += [_recommended(advice, evidence), _how_sure(advice, evidence)]
        blocks += ["Measured near your situation (per cent of the test answered rightly):"]
        blocks[-1] += "".join(f"\n{line}" for line in _near_lines(advice))
    blocks += [line for line in _remarks(advice) if line]
    command = settling_command(advice, data_words)
    blocks += [f"What would settle it, on your own data:\n  {command}"]
    return "\n\n".join(blocks) + "\n"


def advice_json(
    advice: Advice, data: str, data_words: Sequence[str], evidence: Evidence
) -> dict[str, Any]:
    """The same for programs."""
    nearest, gap = advice.nearest
    return {
        "data": data,
        "situation": dataclasses.asdict(advice.situation),
        "wishes": dataclasses.asdict(advice.wishes),
        "recommendation": None
        if advice.form is None
        else {
            "algorithm": advice.form.algorithm,
            "params": dict(advice.form.params),
            "published_encoder": advice.form.published,
        },
        "sureness": advice.sureness,
        "is_a_study_near": advice.is_any_near,
        "nearest": {
            "setting": nearest.words,
            "distance": round(gap.size, 3) if not gap.other else None,
            "too_far_in": gap.too_far_in,
        },
        "near": [
            {
                "setting": one.setting.words,
                "seeds": one.setting.seeds,
                "distance": round(one.distance.size, 3),
                "measures": dataclasses.asdict(one.setting.measures),
                "methods": [
                    {
                        "method": row.form.words,
                        **dataclasses.asdict(row.figures[advice.wishes.on]),
                        "bytes": row.bytes,
                        "exchanges": row.exchanges,
                        "source": row.source,
                    }
                    for row in one.candidates
                ],
            }
            for one in advice.near
        ],
        "leads": [
            {
                "over": lead.over.words,
                "points": round(lead.points, 2),
                "is_shown": lead.is_shown,
                "comparisons": [dataclasses.asdict(c) for c in (*lead.shown_by, *lead.open)],
            }
            for lead in advice.leads
        ],
        "remarks": [line for line in _remarks(advice) if line],
        "command": settling_command(advice, data_words),
    }


def _measures(own: Measures) -> str:
    return (
        f"{own.clients} clients with about {own.examples_per_client:,.0f} examples each, "
        f"{own.classes} classes, label skew {own.label_skew:.2f} (0 alike, 1 disjoint), sizes "
        f"Gini {own.size_gini:.2f}, class balance {own.class_balance:.2f}."
    )


def _nothing_near(advice: Advice) -> str:
    nearest, gap = advice.nearest
    if not advice.is_any_near:
        return (
            "No study is near, so there is no recommendation. The nearest is "
            f"{nearest.words}; too far away in: {listed(gap.too_far_in)}."
        )
    wishes = advice.wishes
    asked = [
        *([f"--max-bytes {byte_size(wishes.max_bytes)}"] if wishes.max_bytes is not None else []),
        *([f"--max-rounds {wishes.max_rounds}"] if wishes.max_rounds is not None else []),
        *(["--personal"] if wishes.personal else []),
        *(["--mixed-networks"] if wishes.mixed_networks else []),
        *(["--private"] if wishes.private else []),
    ]
    return (
        f"No study near has measured a method with {listed(asked)}, so there is no recommendation. "
        f"The nearest study is {nearest.words}.{_least(advice)}"
    )


def _least(advice: Advice) -> str:
    if advice.least is None:
        return ""
    form, size = advice.least
    return f" What moved least near you: {form.words}, {byte_size(size)} for as many clients."


def _recommended(advice: Advice, evidence: Evidence) -> str:
    assert advice.form is not None
    text = f"Try first: {advice.form.words}"
    if advice.form.published:
        text += (
            "\n  Only if a published encoder fits your inputs: everything compared near you was "
            "measured on one."
        )
    if advice.passed_over is not None:
        over = advice.passed_over
        text += (
            f"\n  Nothing measured near you is shown to beat it. {over.over.words} has the "
            f"highest mean, {_points(-over.points)} above it, which may be chance."
        )
    if advice.unproven is not None:
        others, usual = advice.unproven
        text += (
            f"\n  Ranked above it, but not shown to beat {usual.words}: "
            f"{listed([form.words for form in others])}."
        )
    if advice.with_published is not None:
        form, lead = advice.with_published
        text += (
            f"\n  If a published encoder fits your inputs: {form.words} was "
            f"{_points(lead.points)} above {lead.over.words} ({_best_proof(lead, evidence)})."
        )
    return text


def _how_sure(advice: Advice, evidence: Evidence) -> str:
    rivals = advice.rivals
    if advice.passed_over is not None:
        rivals = tuple(lead for lead in rivals if lead.points > 0)
    lines = [f"How sure: {advice.sureness}{_but_not_on(advice)}."]
    for lead in rivals[:MOST_RIVALS]:
        lines += _lead(lead, lead.over.words, evidence)
    if len(rivals) > MOST_RIVALS:
        lines.append(f"  and over {len(rivals) - MOST_RIVALS} more by larger differences")
    if advice.untrained is not None:
        form = advice.untrained.over
        lines += _lead(advice.untrained, f"the same untrained, {form.words}", evidence)
    data = {one.setting.dataset for one in advice.near}
    lines.append(f"  Data sets near you: {listed(sorted(data))}. {LIMITS}")
    return "\n".join(lines)


def _but_not_on(advice: Advice) -> str:
    """Near data sets that do not show by themselves what the answer is about."""
    if advice.sureness in ("not shown", "shown against some") or not advice.rivals[0].unshown_on:
        return ""
    return f"; not on {listed(list(advice.rivals[0].unshown_on))} alone"


def _lead(lead: Lead, over: str, evidence: Evidence) -> list[str]:
    """How it stands against one other, and what speaks against that."""
    seen = counted(len(lead.settings), "near setting")
    seen += ", in part by its other forms" if lead.by_other_forms else ""
    state = _best_proof(lead, evidence) if lead.is_shown else f"not shown{_open(lead, evidence)}"
    against = lead.open if lead.is_shown else ()
    return [
        f"  over {over}: {_points(lead.points)} in {seen}; {state}",
        *(f"    but not shown: {_comparison(one, evidence)}" for one in against),
    ]


def _best_proof(lead: Lead, evidence: Evidence) -> str:
    """Where it is shown, and by what at best: corrected before uncorrected, wide before narrow.

    Where one data set alone shows it, its own figure says more than a mean with others.
    """
    data = list(lead.shown_on)
    where = f"on {listed(data)}" if data else "in the mean of several data sets"
    if lead.shown_by:
        sign = -1 if len(data) == 1 else 1
        best = max(lead.shown_by, key=lambda one: (one.p is not None, sign * len(one.settings)))
        return f"shown {where}: {_comparison(best, evidence)}"
    there = "there" if len(lead.settings) == 1 else f"in {len(lead.apart)} of them"
    return f"shown {where}: their own intervals do not overlap {there}"


def _open(lead: Lead, evidence: Evidence) -> str:
    return f": {_comparison(lead.open[0], evidence)}" if lead.open else " by a paired comparison"


def _comparison(one: Comparison, evidence: Evidence) -> str:
    corrected = "not corrected for several comparisons" if one.p is None else f"p ≤ {one.p:.3f}"
    data = evidence.data_sets(one)
    of = data[0] if len(data) == 1 else f"{len(data)} data sets"
    over = f"over {len(one.settings)} settings of {of}" if len(one.settings) > 1 else f"on {of}"
    # an end that would be read as zero says on which side of it it is
    decimals = 1 if all(round(end, 1) for end in (one.low, one.high)) else 2
    ends = f"[{fixed(one.low, decimals)}, {fixed(one.high, decimals)}]"
    return f"{_points(one.points, decimals)} {ends} {over}, {corrected} ({one.source})"


def _near_lines(advice: Advice) -> list[str]:
    """The nearest settings that measured the recommended form, beside others if there are such."""
    own = [one for one in advice.near if advice.form in [row.form for row in one.candidates]]
    own.sort(key=lambda one: len(_rows_to_show(one, advice)) == 1)
    lines = [_near(one, advice) for one in own[:MOST_SETTINGS]]
    left = len(advice.near) - len(lines)
    return lines + ([f"  and {counted(left, 'setting')} more, which --json lists"] if left else [])


def _near(one: Near, advice: Advice) -> str:
    rows = _rows_to_show(one, advice)
    said = "; ".join(f"{row.form.words} {_row(row, one, advice)}" for row in rows)
    seeds = f"{one.setting.seeds} seeds"
    return (
        f"  {one.setting.words}, {seeds}, distance {one.distance.size:.2f}\n"
        f"    {said}\n    {', '.join(dict.fromkeys(row.source for row in rows))}"
    )


def _rows_to_show(one: Near, advice: Advice) -> list[Measured]:
    """The recommended form and the best form of the best other algorithms, in their order."""
    assert advice.form is not None
    found: dict[str, Measured] = {}
    for row in one.candidates:
        is_offered_apart = row.form.published is not None and advice.form.published is None
        is_other_form = row.form.algorithm == advice.form.algorithm and row.form != advice.form
        if not is_offered_apart and not is_other_form:
            found.setdefault(row.form.algorithm, row)
    rows = list(found.values())
    own = advice.form.algorithm
    return [row for n, row in enumerate(rows) if n < MOST_ROWS or row.form.algorithm == own]


def _row(row: Measured, one: Near, advice: Advice) -> str:
    size = expected_bytes(row, one.setting, advice.situation)
    scaled = size is not None and row.bytes is not None and size > row.bytes
    moved = "" if row.bytes is None else f", {byte_size(row.bytes)}"
    if scaled and size is not None:
        moved += f", at least {byte_size(size)} for your clients"
    return f"{_figure(row.figures[advice.wishes.on])}{moved}"


def _figure(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return fixed(figure.mean, 1)
    low, high = max(0.0, figure.low), min(100.0, figure.high)  # few seeds reach beyond
    return f"{fixed(figure.mean, 1)} [{fixed(low, 1)}, {fixed(high, 1)}]"


def _points(points: float, decimals: int = 1) -> str:
    text = fixed(points, decimals)
    return f"{text if text.startswith('−') or not text.strip('0.') else '+' + text} points"


def _remarks(advice: Advice) -> list[str]:
    wishes, skew = advice.wishes, advice.situation.skew
    return [
        "Note: labels can be counted; whether inputs look different from client to client cannot. "
        "If scanners, writers or cameras differ, look at the studies of domains, too."
        if skew == "unknown"
        else "",
        f"Note: classes are unequal (balance {advice.situation.class_balance:.2f} of 1). Where "
        "they are so in the test, too, knowing only the largest class gives a high accuracy, and "
        "accuracies are what stands here; the command compares by balanced accuracy."
        if has_unequal_classes(advice)
        else "",
        f"Note: {listed(list(advice.unrecorded))} cannot be judged by --max-bytes: pages near you "
        "do not say what they moved."
        if advice.unrecorded
        else "",
        "Note: bytes are those of the study's networks; yours may be larger or smaller."
        if wishes.max_bytes is not None
        else "",
        f"Note: of {listed(list(advice.in_the_open))} masks cover a part only, the rest travels in "
        "the open, so --private leaves it out."
        if advice.in_the_open
        else "",
        "Note: no study measured accuracy under masks; they change sums by rounding only. Nothing "
        "here says what a model gives away about single examples; for that see dp-fedavg."
        if wishes.private
        else "",
    ]

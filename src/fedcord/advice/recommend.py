"""From a situation and wishes to one method, by what was measured near it.

1. Settings whose measures are all within their bounds are near; the closest `MOST_NEAR` count.
2. Of the methods measured there, those that fit the wishes are candidates.
3. Algorithms, each in its best form, are ranked over these settings (`ranking`). Of the leader the
   form without parameters is taken, unless it does not fit or another is `WORTH` points better.
   Controls, encoders that nobody trained, are forms like others.
4. Forms that need a published encoder are ranked apart, since not everybody has one that fits.
5. A leader that is not shown to be better than the baseline (FedAvg; for personal models, every
   client alone) gives way to the next that is, and where none is, to the baseline itself: what is
   simple stays until something is shown to beat it.

A difference is shown where a paired interval of the page leaves out zero (and p < 0.05 where the
page has a corrected one), or where the two methods' own intervals do not overlap. What the mean of
several data sets shows is not shown on each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from fedcord.advice.evidence import Comparison, Evidence, Form, Measured, On, Setting
from fedcord.advice.measures import Distance, Measures, distance
from fedcord.advice.ranking import effects
from fedcord.advice.wishes import Wishes, fits_of, least_moved, left_out

MOST_NEAR = 8
WORTH = 1.0
"""Points for which parameters are worth setting."""
BASELINES: Mapping[On, tuple[str, ...]] = {"common": ("fedavg",), "own": ("local", "local-ridge")}

Sureness = Literal[
    "shown on several data sets",
    "shown on one data set",
    "shown in the mean of several data sets",
    "shown against some",
    "not shown",
    "no study",
]


@dataclass(frozen=True)
class Near:
    """A setting near the situation, and who was measured there, the best first.

    Attributes:
        setting: which.
        distance: from the situation.
        candidates: methods that fit the wishes, one row for each form.
    """

    setting: Setting
    distance: Distance
    candidates: tuple[Measured, ...]


@dataclass(frozen=True)
class Lead:
    """How one form stands against another in the near settings that measured both.

    Attributes:
        over: the other.
        points: mean difference over `settings`.
        settings: names.
        shown_by: comparisons that say that it is ahead.
        apart: settings where the two methods' own intervals do not overlap.
        open: comparisons that show nothing.
        shown_on: data sets of `settings` that show it by themselves.
        unshown_on: the others.
        by_other_forms: whether some settings measured the algorithm in another form only.
    """

    over: Form
    points: float
    settings: tuple[str, ...]
    shown_by: tuple[Comparison, ...]
    apart: tuple[str, ...]
    open: tuple[Comparison, ...]
    shown_on: tuple[str, ...]
    unshown_on: tuple[str, ...]
    by_other_forms: bool = False

    @property
    def is_shown(self) -> bool:
        """Whether it is more than a difference of means.

        A mean over data sets of which most are far away may say so, but not against what is near.
        """
        return self.points > 0 and _show([*self.shown_by, *self.open], self.apart)


@dataclass(frozen=True)
class Advice:
    """What to try first, and why.

    Attributes:
        situation: what was asked about.
        wishes: likewise.
        near: near settings with candidates, the nearest first.
        nearest: the closest of all settings and its distance, near or not.
        form: the recommendation; None where nothing near fits.
        leads: of the recommended form over every other candidate, the closest first.
        passed_over: the leader by means, where the recommendation is a baseline that nothing is
            shown to beat.
        unproven: forms that rank above the recommended one but are not shown to beat the baseline,
            as it is; with the baseline.
        with_published: a form on a published encoder that was ahead; None where there is none.
        sureness: in a word.
        unrecorded: algorithms left out for want of a figure on bytes.
        in_the_open: algorithms left out because masks cover a part of them only.
        least: where nothing near fits `max_bytes`, what moved least, and how much.
    """

    situation: Measures
    wishes: Wishes
    near: tuple[Near, ...]
    nearest: tuple[Setting, Distance]
    form: Form | None
    leads: tuple[Lead, ...]
    passed_over: Lead | None
    unproven: tuple[tuple[Form, ...], Form] | None
    with_published: tuple[Form, Lead] | None
    sureness: Sureness
    unrecorded: tuple[str, ...]
    in_the_open: tuple[str, ...]
    least: tuple[Form, float] | None

    @property
    def rivals(self) -> tuple[Lead, ...]:
        """Leads over other algorithms."""
        own = None if self.form is None else self.form.algorithm
        return tuple(lead for lead in self.leads if lead.over.algorithm != own)

    @property
    def untrained(self) -> Lead | None:
        """The lead over the same without training, where that was measured."""
        if self.form is None:
            return None
        control = (self.form.algorithm, self.form.published is None, True)
        return next((lead for lead in self.leads if _kind(lead.over) == control), None)

    @property
    def is_any_near(self) -> bool:
        """Whether a study is near at all, whatever its methods."""
        return self.nearest[1].is_near


def advise(situation: Measures, wishes: Wishes, evidence: Evidence) -> Advice:
    """The recommendation; see the module."""
    placed = sorted(
        ((distance(situation, s.measures), s) for s in evidence.settings.values()),
        key=lambda pair: (pair[0].size, pair[1].name),
    )
    all_near = [(gap, setting) for gap, setting in placed if gap.is_near]
    fits = fits_of(situation, wishes)
    near = []
    for gap, setting in all_near:
        rows = [
            row for row in evidence.methods if row.setting == setting.name and fits(row, setting)
        ]
        if rows:
            near.append(Near(setting, gap, _best_of_each_form(rows, wishes.on)))
    near = near[:MOST_NEAR]
    own = {row.form.algorithm for row in _rows(near, _needs_nothing)}
    best = next(iter(_ranked(near, wishes.on, lambda form: True)), None)
    # one method alone leads nobody: then those on a published encoder are what was compared
    ranked = _ranked(near, wishes.on, _needs_nothing if len(own) > 1 else lambda form: True)
    form, passed_over, unproven = _shown_to_lead(ranked, near, evidence, wishes.on)
    leads = () if form is None else _leads(form, near, evidence, wishes.on)
    if form is not None and form.published is None:  # those on a published encoder stand apart
        leads = tuple(lead for lead in leads if lead.over.published is None)
    with_published = None
    if form is not None and form.published is None and best is not None and best.published:
        ahead = _leads(best, near, evidence, wishes.on)
        own_forms = [lead for lead in ahead if lead.over.published is None]
        with_published = (best, own_forms[0]) if own_forms and own_forms[0].is_shown else None
    return Advice(
        situation,
        wishes,
        tuple(near),
        (placed[0][1], placed[0][0]),
        form,
        leads,
        passed_over,
        unproven,
        with_published,
        _sureness(form, leads, passed_over is not None, unproven is not None),
        *left_out(wishes, [setting.name for _, setting in all_near], evidence),
        least_moved(situation, wishes, [setting for _, setting in all_near], evidence)
        if form is None
        else None,
    )


def _shown_to_lead(
    ranked: list[Form], near: list[Near], evidence: Evidence, on: On
) -> tuple[Form | None, Lead | None, tuple[tuple[Form, ...], Form] | None]:
    """The form to recommend, and who was passed over for want of proof; see `Advice`."""
    if not ranked:
        return None, None, None
    leader = ranked[0]
    usual = _baseline(near, leader, on)
    if usual is None:
        return leader, None, None
    for place, form in enumerate(ranked):
        if form.algorithm == usual.algorithm:
            break
        over = _lead(form, usual, near, evidence, on)
        if over is not None and over.is_shown:
            return form, None, (tuple(ranked[:place]), usual) if place else None
    return usual, _lead(usual, leader, near, evidence, on), None


def _needs_nothing(form: Form) -> bool:
    return form.published is None


def _best_of_each_form(rows: list[Measured], on: On) -> tuple[Measured, ...]:
    """One row per form (the better of 5 and 20 rounds, say), the best first."""
    found: dict[Form, Measured] = {}
    for row in sorted(rows, key=lambda row: (-row.figures[on].mean, row.label)):
        found.setdefault(row.form, row)
    return tuple(found.values())


MayLead = Callable[[Form], bool]


def _rows(near: list[Near], may_lead: MayLead) -> list[Measured]:
    return [row for one in near for row in one.candidates if may_lead(row.form)]


def _ranked(near: list[Near], on: On, may_lead: MayLead) -> list[Form]:
    """Of every algorithm the form to take, the best first."""
    rows = _rows(near, may_lead)
    best: dict[str, dict[str, float]] = {}
    for row in rows:  # within a setting the best come first
        best.setdefault(row.form.algorithm, {}).setdefault(row.setting, row.figures[on].mean)
    return [
        _form_to_take([row for row in rows if row.form.algorithm == name], on)
        for name in effects(best)
    ]


def _form_to_take(rows: list[Measured], on: On) -> Form:
    """Of those within `WORTH` points of the best, the plain one, or else the least to send.

    Where that is the same, too, what has fewest parameters.
    """
    forms: dict[str, Form] = {}
    scores: dict[str, dict[str, float]] = {}
    sizes: dict[str, float] = {}
    for row in rows:
        name = row.form.words
        forms[name] = row.form
        scores.setdefault(name, {})[row.setting] = row.figures[on].mean
        sizes[name] = min(sizes.get(name, math.inf), math.inf if row.bytes is None else row.bytes)
    ranked = effects(scores)
    best = next(iter(ranked.values()))
    good = [forms[name] for name, effect in ranked.items() if effect >= best - WORTH]
    return min(
        good,
        key=lambda form: (bool(form.params), sizes[form.words], len(form.params), form.words),
    )


def _baseline(near: list[Near], leader: Form, on: On) -> Form | None:
    """The simple method that was measured most often beside the leader; None where none was."""
    met = {row.setting for row in _rows(near, lambda form: form == leader)}
    beside: dict[Form, int] = {}
    for row in _rows(near, lambda form: form.published in (None, leader.published)):
        if row.form.algorithm in BASELINES[on] and row.setting in met and row.form != leader:
            beside[row.form] = beside.get(row.form, 0) + 1
    return max(beside, key=lambda form: (beside[form], form.words), default=None)


def _leads(form: Form, near: list[Near], evidence: Evidence, on: On) -> tuple[Lead, ...]:
    others = {row.form for one in near for row in one.candidates if row.form != form}
    found = [_lead(form, other, near, evidence, on) for other in others]
    leads = [lead for lead in found if lead is not None]
    return tuple(sorted(leads, key=lambda lead: (lead.points, lead.over.words)))


def _lead(form: Form, over: Form, near: list[Near], evidence: Evidence, on: On) -> Lead | None:
    rows = {}
    for one in near:
        mine = _as_measured(form, one, over.algorithm != form.algorithm)
        theirs = _as_measured(over, one, False)
        if mine is not None and theirs is not None:
            rows[one.setting.name] = (mine, theirs)
    if not rows:
        return None
    apart, compared = [], []
    for name, (mine, theirs) in rows.items():
        low, high = mine.figures[on].low, theirs.figures[on].high
        if low is not None and high is not None and low > high:
            apart.append(name)
        for comparison in evidence.comparisons:
            for seen in (comparison, comparison.reversed()):
                is_of_both = (seen.label, seen.versus) == (mine.label, theirs.label)
                if is_of_both and seen.on == on and name in seen.settings and seen not in compared:
                    compared.append(seen)
    gaps = [mine.figures[on].mean - theirs.figures[on].mean for mine, theirs in rows.values()]
    shown = tuple(one for one in compared if one.is_shown)
    silent = tuple(one for one in compared if not one.is_shown)
    others = any(mine.form != form for mine, _ in rows.values())
    data = {name: evidence.settings[name].dataset for name in rows}
    by_itself = {
        one: _show(
            [comparison for comparison in compared if evidence.data_sets(comparison) == [one]],
            [name for name in apart if data[name] == one],
        )
        for one in sorted(set(data.values()))
    }
    return Lead(
        over,
        fmean(gaps),
        tuple(rows),
        shown,
        tuple(apart),
        silent,
        tuple(one for one, is_shown in by_itself.items() if is_shown),
        tuple(one for one, is_shown in by_itself.items() if not is_shown),
        others,
    )


def _show(compared: Sequence[Comparison], apart: Sequence[str]) -> bool:
    """Whether these say that one is ahead.

    Where a page corrects for its many comparisons, only what stays shown counts.
    """
    corrected = [one for one in compared if one.p is not None]
    if corrected:
        return any(one.is_shown for one in corrected)
    return bool(apart) or any(one.is_shown for one in compared)


def _as_measured(form: Form, near: Near, may_differ: bool) -> Measured | None:
    """The form in a setting, or else the best form of its algorithm there; None without either.

    Controls do not stand in for what they control, nor the other way round.
    """
    same = [row for row in near.candidates if row.form == form]
    if not same and may_differ:
        same = [row for row in near.candidates if _kind(row.form) == _kind(form)]
    return same[0] if same else None


def _kind(form: Form) -> tuple[str, bool, bool]:
    return form.algorithm, form.published is None, form.is_untrained


def _sureness(
    form: Form | None, leads: tuple[Lead, ...], is_fallback: bool, is_outranked: bool
) -> Sureness:
    """By the closest rival of another algorithm: forms of one method are a smaller question."""
    if form is None:
        return "no study"
    rivals = [lead for lead in leads if lead.over.algorithm != form.algorithm]
    if is_fallback or not any(lead.is_shown for lead in rivals):
        return "not shown"
    if is_outranked or not all(lead.is_shown for lead in rivals):
        return "shown against some"
    data = rivals[0].shown_on
    if not data:
        return "shown in the mean of several data sets"
    return "shown on several data sets" if len(data) > 1 else "shown on one data set"

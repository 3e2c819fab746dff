"""A page that is written again keeps other sittings' parts and what people wrote."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedcord.report.kept_page import with_kept

PARTS = ["mild", "hard", "wide"]


def page_of(*parts: str, plan: str = "Planned, first run 2026-01-02.", more: str = "") -> str:
    commands = "\n".join(f"fedcord reproduce study --part {part}" for part in parts)
    sections = "".join(f"\n## {part}\n\n| table of {part} |\n" for part in parts)
    return (
        f"# study\n\n```sh\n{commands}\n```\n\n**Setting.**\n\n## Plan\n\n{plan}\n{more}{sections}"
    )


WRITTEN = "\n## Against accord\n\nmade by a second command\n\n## What it says\n\n- **A finding.**\n"


def test_the_same_runs_make_the_same_page() -> None:
    page = page_of("mild", "hard") + WRITTEN
    assert with_kept(page_of("mild", "hard"), page, PARTS) == page


def test_parts_of_another_sitting_stay_in_the_order_of_the_study() -> None:
    before = page_of("mild", "wide") + WRITTEN
    page = with_kept(page_of("hard", plan="Planned, first run 2026-01-09."), before, PARTS)
    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert titles == ["Plan", *PARTS, "Against accord", "What it says"]
    # the first run of all is the hardest on the plan
    assert page.count("first run") == 1
    assert "first run 2026-01-02." in page
    commands = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert commands == [
        f"fedcord reproduce study --part {part}" for part in ("mild", "wide", "hard")
    ]
    assert page.endswith("- **A finding.**\n")


def test_a_part_that_was_run_again_is_the_new_one() -> None:
    before = page_of("mild").replace("| table of mild |", "| old |") + WRITTEN
    page = with_kept(page_of("mild"), before, PARTS)
    assert "old" not in page
    assert "| table of mild |" in page


def test_two_plans_are_both_told() -> None:
    page = with_kept(page_of("hard", plan="Another one."), page_of("mild"), PARTS)
    plan = page.partition("## Plan\n")[2].partition("## ")[0]
    assert plan.index("Planned, first run") < plan.index("hard:\n\nAnother one.")


def test_what_is_said_of_all_parts_goes_where_some_are_of_another_sitting() -> None:
    together = "\n## All parts together\n\nboth\n"
    whole = page_of("mild", "hard", more=together)
    assert with_kept(whole, whole, PARTS) == whole
    assert "together" not in with_kept(page_of("hard", more=together), whole, PARTS)


RESULTS = Path(__file__).parents[2] / "studies" / "results"
NO_FIGURES = "No published figures are known to us, or the item has none."
HEAD = "| part | method | ours |\n| --- | ---: | ---: |\n"


def sitting(
    tables: Mapping[str, str],
    plan: str | None = None,
    figures: Mapping[str, str] | None = None,
    lacking: str = "",
) -> str:
    """A page as `reproduction_page` writes it."""
    parts = " ".join(f"--part {part}" for part in tables)
    text = f"# study\n\n```sh\nfedcord reproduce study {parts}\n```\n\n**Setting:** small\n"
    rows = "".join(f"| {part} | new | {ours} |\n" for part, ours in (figures or {}).items())
    text += f"\n## Beside the published figures\n\n{HEAD}{rows}\nJudged.\n" if rows else ""
    text += "" if rows else f"\n{NO_FIGURES}\n"
    text += "" if plan is None else f"\n## Plan\n\n{plan}\n"
    text += "".join(f"\n## {part}\n\n{table}\n" for part, table in tables.items())
    return text + (f"\n{lacking} was not run: no data\n" if lacking else "")


def plan_of(
    date: str, kind: str = "Planned before", question: str = "Is it?", otherwise: str = ""
) -> str:
    standing = f"{kind} the first run: commit 1a of 2026-01-05T00:00:00+00:00, first run {date}."
    more = f" Not as planned: {otherwise}" if otherwise else ""
    return f"Plan. {standing} Question: {question} Primary: new - old.{more}"


def plan_on(page: str) -> list[str]:
    return page.partition("## Plan\n")[2].partition("\n## ")[0].strip("\n").split("\n\n")


def test_a_part_that_was_run_later_is_no_longer_said_to_be_missing() -> None:
    before = sitting({"mild": "A"}, lacking="hard")
    assert "hard was not run" in with_kept(sitting({"mild": "B"}), before, PARTS)
    page = with_kept(sitting({"hard": "B"}), before, PARTS)
    assert "was not run" not in page
    # nor is one that is on the page from before, because this sitting could not run it
    again = with_kept(sitting({"mild": "C"}, lacking="hard"), page, PARTS)
    assert "was not run" not in again
    assert again.index("C") < again.index("## hard\n\nB")


def test_what_was_not_run_is_said_once_below_the_parts() -> None:
    before = sitting({"mild": "A"}, lacking="hard") + WRITTEN
    page = with_kept(sitting({"wide": "B"}, lacking="hard"), before, PARTS)
    assert page.count("hard was not run: no data") == 1
    assert page.index("B\n") < page.index("hard was not run") < page.index("## Against accord")


def test_figures_of_a_part_that_was_run_again_are_the_new_ones() -> None:
    before = sitting({"mild": "A", "hard": "A"}, figures={"mild": "1.00", "hard": "2.00"})
    page = with_kept(sitting({"hard": "B"}, figures={"hard": "3.00"}), before, PARTS)
    assert f"{HEAD}| mild | new | 1.00 |\n| hard | new | 3.00 |\n\nJudged." in page
    assert "2.00" not in page
    assert page.count("Judged.") == 1


def test_figures_without_a_part_are_of_the_part_that_the_page_had() -> None:
    """As pages of a single part were written before parts were always named."""
    before = sitting({"mild": "A"}, figures={"mild": "1.00"}).replace("| mild ", "")
    before = before.replace("| part | method |", "| method |").replace("| --- | ---:", "| ---", 1)
    page = with_kept(sitting({"hard": "B"}, figures={"hard": "3.00"}), before, PARTS)
    assert f"{HEAD}| mild | new | 1.00 |\n| hard | new | 3.00 |\n" in page
    assert with_kept(sitting({"hard": "B"}), before, PARTS).count(f"{HEAD}| mild |") == 1


def test_the_top_says_that_there_are_no_figures_only_where_there_are_none() -> None:
    before = sitting({"mild": "A"}, figures={"mild": "1.00"})
    page = with_kept(sitting({"hard": "B"}), before, PARTS)
    assert NO_FIGURES not in page
    assert "| mild | new | 1.00 |" in page
    assert NO_FIGURES in with_kept(sitting({"mild": "B"}), before, PARTS)


def test_figures_that_were_not_run_do_not_replace_those_that_were() -> None:
    before = sitting({"mild": "A"}, figures={"mild": "1.00"})
    page = sitting({"hard": "B"}, figures={"mild": "not run", "hard": "3.00"}, lacking="mild")
    found = with_kept(page, before, PARTS)
    assert "| mild | new | 1.00 |" in found
    assert "not run" not in found


@pytest.mark.parametrize("dates", [("2026-01-06", "2026-01-09"), ("2026-01-09", "2026-01-06")])
def test_the_earlier_first_run_counts(dates: tuple[str, str]) -> None:
    before, now = (plan_of(date) for date in dates)
    page = with_kept(sitting({"hard": "B"}, now), sitting({"mild": "A"}, before), PARTS)
    assert plan_on(page) == [plan_of("2026-01-06")]
    # also of a part that was run again
    page = with_kept(sitting({"mild": "B"}, now), sitting({"mild": "A"}, before), PARTS)
    assert plan_on(page) == [plan_of("2026-01-06")]


def test_parts_that_stand_otherwise_to_the_plan_are_told_with_the_earliest_first() -> None:
    late = plan_of("2026-01-04", "Written after", otherwise="Seed 7.")
    page = with_kept(
        sitting({"mild": "A"}, plan_of("2026-01-06")), sitting({"hard": "B"}, late), PARTS
    )
    standing = plan_of("2026-01-06").partition(" Question")[0].removeprefix("Plan. ")
    told = [late, f"mild: {standing}", "mild, not as planned: nothing."]
    assert plan_on(page) == told
    # what differs is read back, and goes with the part that it is about
    again = with_kept(sitting({"wide": "C"}, plan_of("2026-01-08")), page, PARTS)
    assert plan_on(again)[:2] == told[:2]
    assert f"wide: {standing.replace('01-06', '01-08')}" in plan_on(again)
    assert "wide, not as planned: nothing." in plan_on(again)


def test_other_plans_are_told_once_however_often_a_page_is_written() -> None:
    other = plan_of("2026-01-09", question="Why?")
    before = sitting({"mild": "A"}, plan_of("2026-01-06"))
    page = with_kept(sitting({"hard": "B"}, other), before, PARTS)
    assert plan_on(page) == [plan_of("2026-01-06"), "hard:", other]
    assert with_kept(sitting({"hard": "B"}, other), page, PARTS) == page
    # and no longer once no part has them
    assert plan_on(with_kept(sitting({"mild": "C"}, other), page, PARTS)) == [other]


def test_a_plan_is_not_told_of_parts_without_one() -> None:
    page = with_kept(sitting({"hard": "B"}, plan_of("2026-01-09")), sitting({"mild": "A"}), PARTS)
    assert plan_on(page) == ["hard:", plan_of("2026-01-09")]


@pytest.mark.parametrize("seed", range(40))
def test_writing_a_page_twice_changes_nothing(seed: int) -> None:
    """After any sequence of sittings, and each part has what its last sitting made."""
    draw = random.Random(seed)
    page = sitting({"mild": "0"}, plan_of("2026-01-06")) + WRITTEN
    made = {"mild": "0"}
    for step in range(1, 8):
        here = {part: str(step) for part in PARTS if draw.random() < 0.5} or {"wide": str(step)}
        absent = [part for part in PARTS if part not in here]
        kinds = [None, "Planned before", "Written after"]
        kind, off = draw.choice(kinds), draw.choice(["", "Seed 7.", "Seed 8."])
        date, question = f"2026-01-0{draw.randint(1, 9)}", draw.choice(["Is it?", "Why?"])
        plan = None if kind is None else plan_of(date, kind, question, off)
        figures = {part: f"{step}.00" for part in here if draw.random() < 0.7}
        lacking = draw.choice(["", *absent])
        now = sitting(here, plan, figures, lacking)
        made |= here
        page = with_kept(now, page, PARTS)
        assert with_kept(now, page, PARTS) == page
        tables = re.findall(r"^## (mild|hard|wide)\n\n(\d)\n", page, re.MULTILINE)
        assert tables == [(part, made[part]) for part in PARTS if part in made]
        assert page.endswith(WRITTEN)
        assert all(f"{part} was not run" not in page for part in made)
        assert (NO_FIGURES in page) == ("| part |" not in page)


def with_parts() -> list[Path]:
    pages = [page for page in sorted(RESULTS.glob("*.md")) if page.with_suffix("").is_dir()]
    return [page for page in pages if "\n**Setting:** " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", with_parts(), ids=lambda page: page.stem)
def test_a_page_that_is_kept_comes_out_of_a_rewrite_unharmed(page: Path) -> None:
    """Whichever of its parts are written again, and whatever people wrote around the tables."""
    text = page.read_text(encoding="utf-8")
    top, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    tables = {path.stem for path in page.with_suffix("").glob("*.csv")}
    titles = [section.splitlines()[0].removeprefix("## ") for section in sections]
    parts = [title for title in titles if title in tables]
    assert parts
    # what people wrote between commands and setting is not of the new page
    top = re.sub(r"(?<=\n```\n).*?(?=\*\*Setting)", "\n", top, flags=re.DOTALL)
    about = ("Beside the published figures", "Plan", "All parts together")
    for here in [parts, *([part] for part in parts)]:
        own = [
            section
            for title, section in zip(titles, sections, strict=True)
            if title in (*about, *here)
        ]
        new = (top + "".join(own)).rstrip("\n") + "\n"
        expected = text
        if here != parts:  # of all parts only where all runs are at hand
            together = r"^## All parts together\n.*?(?=^## )"
            expected = re.sub(together, "", text, flags=re.MULTILINE | re.DOTALL)
        assert with_kept(new, text, parts) == expected

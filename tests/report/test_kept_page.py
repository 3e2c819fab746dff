"""A page that is written again keeps other sittings' parts and what people wrote."""

from __future__ import annotations

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

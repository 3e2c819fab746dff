"""Accuracy on domains and other parts of the test set."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from fedcord.report.groups import group_table
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.report.tables import to_markdown

StudyWriter = Callable[..., Path]
DOMAINS = {"usps": [0.5, 0.7, 0.6], "mnist": [0.9, 0.8, 0.85]}


def with_domains(study: Path, domains: dict[str, list[float]], name: str) -> None:
    """Every seed of `name` gets its accuracies on the domains."""
    for seed, path in enumerate(sorted((study / name).rglob("result.json"))):
        own = {domain: values[seed] for domain, values in domains.items()}
        path.write_text(json.dumps({**json.loads(path.read_text()), "per_domain": own}))


def test_every_part_and_their_mean_with_intervals(write_study: StudyWriter) -> None:
    """Against SciPy's t interval on the logit scale; domains weigh equally, seed by seed."""
    study = write_study({"fedavg": [0.6, 0.7, 0.8], "other": [0.4, 0.5, 0.45]})
    with_domains(study, DOMAINS, "fedavg")
    with_domains(study, {"usps": [0.5] * 3}, "other")
    head, rows = group_table(leaderboard(load_runs(study)), "domain")
    assert head == ["algorithm", "mnist", "usps", "mean of domains"]
    expected = [DOMAINS["mnist"], DOMAINS["usps"], np.mean(list(DOMAINS.values()), axis=0)]
    for cell, values in zip(rows[0][1:], expected, strict=True):
        m, error = float(np.mean(values)), stats.sem(values)
        ends = stats.t.interval(0.95, 2, loc=logit(m), scale=error / (m * (1 - m)))
        mean, low, high = (float(part.strip("[],")) for part in cell.split())
        assert mean == pytest.approx(100 * m, abs=0.005)
        assert (low, high) == pytest.approx(100 * expit(ends), abs=0.005)
    assert rows[1] == ["other", "–", "50.00", "–"]


def test_the_markdown_file_has_a_table_per_kind(write_study: StudyWriter) -> None:
    study = write_study({"fedavg": [0.6, 0.7, 0.8], "other": [0.4, 0.5, 0.45]})
    for name in ("fedavg", "other"):
        with_domains(study, {"a|b": [0.5, 0.6, 0.7], **DOMAINS}, name)
    text = to_markdown(leaderboard(load_runs(study)))
    assert "Accuracy per domain" in text
    assert r"| algorithm | a\|b | mnist | usps | mean of domains |" in text
    assert "|\n\nMade with" in text


def test_without_groups_there_is_no_such_table(write_study: StudyWriter) -> None:
    text = to_markdown(leaderboard(load_runs(write_study({"fedavg": [0.6, 0.7]}))))
    assert "Accuracy per" not in text

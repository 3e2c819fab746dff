import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.metrics.registry import METRICS
from fedcord.report import build_report
from tests.browser.chromium import Chromium, Page, find_chromium
from tests.report.conftest import write_run

CLASSES = ("cat", "dog", "eel")
METHODS = [f"method-{letter}" for letter in "abcdefghijkl"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed; on Debian: apt-get install chromium")
    chromium = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


@pytest.fixture
def page(browser: Chromium) -> Iterator[Page]:
    """An empty tab."""
    tab = Page(browser)
    yield tab
    tab.close()


@pytest.fixture
def large(large_report: Path, page: Page) -> Page:
    """A tab with the report of twelve methods and five seeds."""
    page.open(large_report)
    return page


@pytest.fixture(scope="session")
def large_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve methods, five seeds, every metric, with traffic and clients that differ."""
    study = tmp_path_factory.mktemp("large")
    for place, name in enumerate(METHODS):
        for seed in range(5):
            write_run(study, name, seed, **_run(place, seed))
    # a method that reports how strongly clients align, so that every kind of figure is there
    for path in (study / METHODS[3]).glob("*/metrics.jsonl"):
        strength = {"client_metrics": {str(k): {"lambda_raw": 2.0 + k} for k in range(5)}}
        lines = [json.loads(line) | strength for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return build_report(study).html


@pytest.fixture(scope="session")
def small_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One method, one seed."""
    study = tmp_path_factory.mktemp("small")
    write_run(study, "fedavg", 0, **_run(4, 0))
    return build_report(study).html


def _run(place: int, seed: int) -> dict[str, Any]:
    """What tells the runs apart: later methods are worse and cheaper, by log-loss the reverse."""
    accuracy = 0.9 - 0.04 * place + 0.01 * ((seed * 7 + place) % 5)
    rng = np.random.default_rng([place, seed])
    values = {name: float(rng.uniform(0.2, 0.9)) for name in METRICS}
    values |= {"accuracy": accuracy, "log_loss": 2.0 - 0.1 * place + 0.01 * seed}
    scores = {"precision": 0.5, "recall": 0.5, "f1": 0.5, "auroc": 0.7, "average_precision": 0.6}
    result = {
        "metrics": values,
        "metric": "accuracy",
        "classes": [{"name": name, "examples": 50, **scores} for name in CLASSES],
        "confusion_matrix": rng.integers(0, 40, (3, 3)).tolist(),
        "client_accuracy": [round(float(own), 3) for own in rng.uniform(0, 1, 5)],
        "bytes_up": 1000 * 2 ** (12 - place),
        "bytes_down": 0,
        "notes": [f"client {seed} has fewer examples than a batch.", "classes are unequal."],
    }
    return {"accuracy": accuracy, "result": result, "class_names": CLASSES}

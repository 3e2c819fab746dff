"""What accord's encoders, FedAvg's model, local models and sums tell about who was in them.

    python studies/accord_leakage.py --page studies/results/accord-leakage.md

Question, decided before the first run: does an encoder that a client shares under accord tell more
about its training samples than what clients send under FedAvg (20 rounds) and as local models, and
what is left to attacks on sums by masks and by noise? Primary comparisons, of the best attack's
AUC, paired by seed: accord's shared encoder - FedAvg's single update, and accord's shared encoder -
a local model. Seeds 40 to 44, then it ends, whatever they show; 95 % Student-t intervals.

CIFAR-10, 8,000 images over five clients (Dirichlet 0.1), of which each trains on a random half, so
that 4,000 are members and the other half of each client's are samples of the same distribution that
nobody trained on; `cnn,width=16`, 20 local epochs. What is done is not done again: interrupt it and
give the same command.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedcord
from fedcord.audit.audit import MODELS, PARTS, SUMS, audit_run
from fedcord.cli.progress import RunBars
from fedcord.core.atomic import write_atomically
from fedcord.statistics import MeanInterval, paired_difference, share_interval

SEEDS = (40, 41, 42, 43, 44)
SHADOWS = 4
SETTING: Mapping[str, Any] = {
    "dataset": "cifar10",
    "subset": 8000,
    "clients": 5,
    "partition": "dirichlet:0.1",
    "model": "cnn,width=16",
    "validation": 0.0,
    "test": 0.5,
}
SMOKE: Mapping[str, Any] = {**SETTING, "dataset": "digits", "subset": 400, "model": "cnn,width=4"}
BEST = ("a client's encoder", "a client's model")
"""Targets of the primary comparisons."""


@dataclass(frozen=True)
class Subject:
    """A method under attack.

    Attributes:
        algorithm: its name.
        params: of it.
        rounds: None where the method fixes them.
        parts: what of it is attacked.
    """

    algorithm: str
    params: Mapping[str, Any]
    rounds: int | None = None
    parts: Sequence[str] = PARTS


def subjects(epochs: int) -> dict[str, Subject]:
    """By label; with so many epochs, or rounds of one epoch, at every client."""
    alone: dict[str, Any] = {"epochs": epochs, "batch_size": 32}
    views = {"local": {**alone, "views": "standard"}}
    usual = {"batch_size": 32, "lr": 0.05, "momentum": 0.9, "clip": 1.0, "augment": "standard"}
    found = {
        "accord": Subject("accord", views),
        "fedavg": Subject("fedavg", {"local": {**usual, "epochs": 1}}, epochs, [MODELS]),
        "ensemble": Subject("ensemble", {"local": {**usual, "epochs": epochs}}, None, [MODELS]),
    }
    for place in ("server", "local"):
        for epsilon in (8.0, 2.0, 1.0):
            noise = {"epsilon": epsilon, "noise_at": place}
            label = f"accord, \N{GREEK SMALL LETTER EPSILON} {epsilon:g} at {place}"
            found[label] = Subject("accord", {**views, "privacy": noise}, None, [SUMS])
    pixels = {"features": {"source": "pixels", "width": 512}}
    found["afl on pixels"] = Subject("afl", pixels, None, [SUMS])
    return found


def main() -> None:
    """Run, attack, and write the page of what is there."""
    parser = argparse.ArgumentParser(description="Attacks on accord, FedAvg and local models.")
    parser.add_argument("--out", type=Path, default=Path("runs/accord-leakage"))
    parser.add_argument("--page", type=Path, help="Markdown page to write")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--smoke", action="store_true", help="digits, two epochs: tries it out")
    arguments = parser.parse_args()
    setting, epochs = (SMOKE, 2) if arguments.smoke else (SETTING, 20)
    chosen = subjects(epochs)
    (arguments.out / "audits").mkdir(parents=True, exist_ok=True)
    with RunBars(hidden=False) as bars:
        show, to_do = bars.steps("runs and audits"), 2 * len(chosen) * len(arguments.seeds)
        for done, (seed, label, step) in enumerate(_steps(arguments.seeds, chosen)):
            show(done, to_do)
            subject, folder = chosen[label], _run_of(arguments.out, label, seed)
            if step == "run":
                settings: dict[str, Any] = {**setting, "rounds": subject.rounds}
                fedcord.run(
                    subject.algorithm,
                    out=folder,
                    resume=True,
                    reuse=arguments.out / "work",
                    seed=seed,
                    evaluate_every=epochs,
                    params=dict(subject.params),
                    **settings,
                )
            elif not _audit_file(arguments.out, label, seed).exists():
                found = audit_run(folder, num_shadows=SHADOWS, parts=subject.parts)
                text = json.dumps(found.plain(), indent=1)
                write_atomically(_audit_file(arguments.out, label, seed), text)
        show(to_do, to_do)
    if arguments.page is not None:
        write_atomically(arguments.page, page(arguments.out, chosen, arguments.seeds, setting))
        beside = arguments.page.with_suffix("")
        beside.mkdir(exist_ok=True)
        write_atomically(beside / "audits.csv", table(arguments.out, chosen, arguments.seeds))
        hashes = json.dumps(run_hashes(arguments.out, chosen, arguments.seeds), indent=1)
        write_atomically(beside / "hashes.json", hashes + "\n")


def page(
    out: Path, chosen: Mapping[str, Subject], seeds: Sequence[int], setting: Mapping[str, Any]
) -> str:
    """The results of these seeds."""
    audits = {label: [_read(_audit_file(out, label, seed)) for seed in seeds] for label in chosen}
    results = {
        label: [_read(_run_of(out, label, seed) / "result.json") for seed in seeds]
        for label in chosen
    }
    origins = [
        _read(_run_of(out, label, seed) / "provenance.json") for label in chosen for seed in seeds
    ]
    begun = sorted(origin["started"] for origin in origins)
    commits = sorted({str(origin["commit"])[:12] for origin in origins})
    lines = [
        "# What sharing tells: attacks on accord, FedAvg and local models",
        "",
        "```sh",
        "python studies/accord_leakage.py --page studies/results/accord-leakage.md",
        "```",
        "",
        "The question, the primary comparisons and the seeds stand at the top of that file, in the "
        f"commit before the first run. Made at {' and '.join(commits)} with torch "
        f"{origins[0]['packages']['torch']}; runs began from {begun[0]} to {begun[-1]}. Every "
        "AUC and every share found is in [audits.csv](accord-leakage/audits.csv) (accuracies and "
        "limits are not), data, partition and final state of every run in "
        "[hashes.json](accord-leakage/hashes.json). Setting: "
        + ", ".join(f"{key} {value}" for key, value in setting.items())
        + f". Seeds {', '.join(map(str, seeds))}; mean over seeds of the mean over clients, 95 % "
        "Student-t interval over seeds (on the logit scale, which stays within 0 and 1). "
        f"{SHADOWS} shadow federations.",
        "",
        "AUC: 0.5 is blind guessing, 1 is certainty. Found: members found when one in a hundred "
        "others is taken for one; 1 % is blind guessing. Limit: the AUC that noise leaves to any "
        "attack on the sums alone. Accuracy is of the method's final model on the test set.",
        "",
        "| method | accuracy | what, and who has it | attack | AUC | found | limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, found in audits.items():
        accuracy = _shown(share_interval([r["accuracy"] for r in results[label]]), 1, 100)
        by_seed = [{_key(f): f["rates"] for f in audit["findings"]} for audit in found]
        for finding in found[0]["findings"]:
            rates = [of_seed[_key(finding)] for of_seed in by_seed]
            limit = finding["limit"]
            columns = (
                label,
                accuracy,
                f"{finding['target']} ({finding['seen_by']})",
                finding["attack"],
                _shown(share_interval([r["auc"] for r in rates]), 3),
                _shown(share_interval([r["found"] for r in rates]), 1, 100) + " %",
                "" if limit is None else f"{limit['auc']:.3f}",
            )
            lines.append(f"| {' | '.join(columns)} |")
    lines += ["", "Primary comparisons, of the AUC of the best attack in each seed:", ""]
    encoder = _best(audits["accord"])
    for label in ("fedavg", "ensemble"):
        gap = paired_difference(encoder, _best(audits[label])).interval
        lines.append(f"- accord's shared encoder - {label}'s single update: {_shown(gap, 3)}")
    return "\n".join(lines) + "\n"


def table(out: Path, chosen: Mapping[str, Subject], seeds: Sequence[int]) -> str:
    """Every rate of every attack, as CSV."""
    rates = ("auc", "found")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("method", "seed", "target", "seen_by", "attack", *rates))
    for label in chosen:
        for seed in seeds:
            for finding in _read(_audit_file(out, label, seed))["findings"]:
                found = (finding["rates"][rate] for rate in rates)
                writer.writerow((label, seed, *_key(finding), *found))
    return text.getvalue()


def run_hashes(
    out: Path, chosen: Mapping[str, Subject], seeds: Sequence[int]
) -> dict[str, dict[str, dict[str, str | None]]]:
    """By method and seed, hashes of data, partition and final state."""
    names = {"data": "data_hash", "partition": "partition_hash", "state": "state_hash"}
    found: dict[str, dict[str, dict[str, str | None]]] = {label: {} for label in chosen}
    for label in chosen:
        for seed in seeds:
            result = _read(_run_of(out, label, seed) / "result.json")
            found[label][str(seed)] = {name: result[key] for name, key in names.items()}
    return found


def _steps(seeds: Sequence[int], labels: Mapping[str, Subject]) -> Iterator[tuple[int, str, str]]:
    """Seed by seed, so that what is unfinished is still paired."""
    for seed in seeds:
        for label in labels:
            yield seed, label, "run"
            yield seed, label, "audit"


def _key(finding: Mapping[str, Any]) -> tuple[str, ...]:
    return finding["target"], finding["seen_by"], finding["attack"]


def _best(audits: Sequence[Mapping[str, Any]]) -> list[float]:
    """By seed, the highest AUC on what single clients have shared."""
    return [
        max(f["rates"]["auc"] for f in audit["findings"] if f["target"] in BEST) for audit in audits
    ]


def _run_of(out: Path, label: str, seed: int) -> Path:
    return out / _slug(label) / f"seed-{seed}"


def _audit_file(out: Path, label: str, seed: int) -> Path:
    return out / "audits" / f"{_slug(label)}-{seed}.json"


def _slug(label: str) -> str:
    words = label.replace(",", "").replace("\N{GREEK SMALL LETTER EPSILON} ", "epsilon-")
    return words.replace(" ", "-")


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def _shown(value: MeanInterval, digits: int, factor: int = 1) -> str:
    text = f"{factor * value.mean:.{digits}f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} [{factor * value.low:.{digits}f}, {factor * value.high:.{digits}f}]"


if __name__ == "__main__":
    main()

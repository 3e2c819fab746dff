"""The model card of an exported model, in the convention of Hugging Face: YAML, then Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.contract import Env
from fedcord.core.errors import CheckpointError
from fedcord.core.names import client_said
from fedcord.core.version import __version__
from fedcord.data.registry import DATASETS, check_spec
from fedcord.data.transforms import DTYPES, NUM_VIEWS
from fedcord.experiment.finished_run import FinishedRun
from fedcord.experiment.load import OWN_DATA
from fedcord.metrics.registry import METRICS, Metric
from fedcord.report.numbers import NOTHING, bracket, byte_size, counted, fixed, percent
from fedcord.report.subject import command_without_folders, short_data
from fedcord.statistics import MeanInterval, mean_interval, share_interval
from fedcord.store.checksums import RESULT
from fedcord.store.run_folder import RunFolder
from fedcord.trained.model import TrainedModel
from fedcord.trained.stored_form import FORMS

PIPELINES = {"image": "image-classification", "text": "text-classification"}
"""What Hugging Face calls the tasks; vectors are tabular."""
METRIC_COLUMNS = {"precision": "precision %", "recall": "recall %", "f1": "F1 %"}


def model_card(run: FinishedRun, model: TrainedModel) -> str:
    """The content of `README.md`."""
    sections = [
        _header(run),
        f"# {run.config.algorithm} on {short_data(run.config.dataset)}",
        _about(run, model),
        "## Use\n\n" + _use(model),
        "## Data\n\n" + _data(run),
        "## Method\n\n" + _method(run),
        "## Metrics\n\n" + _metrics(run),
        *_classes(run),
        "## Costs\n\n" + _costs(run),
        "## Privacy\n\n" + _privacy(run, model),
        "## How it was made\n\n" + _origin(run),
    ]
    return "\n\n".join(sections) + "\n"


def _header(run: FinishedRun) -> str:
    name, kind = short_data(run.config.dataset), run.facts.kind
    pipeline = PIPELINES.get(kind, "tabular-classification")
    accuracy = {"type": "accuracy", "value": run.result["accuracy"]}
    result = {"task": {"type": pipeline}, "dataset": {"name": name, "type": name}}
    index = [{"name": run.config.algorithm, "results": [{**result, "metrics": [accuracy]}]}]
    values: dict[str, Any] = {
        "license": "unknown",
        "library_name": "fedcord",
        "pipeline_tag": pipeline,
        "tags": ["federated-learning", run.config.algorithm],
        "datasets": [name],
        "metrics": ["accuracy"],
        "model-index": index,
    }
    # JSON is YAML, and quotes whatever a name may hold
    lines = [f"{key}: {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["---", *lines, "---"])


def _about(run: FinishedRun, model: TrainedModel) -> str:
    client, names = model.moment.client, run.names
    whose = "The model that all clients share"
    if client is not None:
        whose = f"The model of {client_said(client, names)}"
    return (
        f"{whose}, trained by federated learning with {run.config.algorithm} over "
        f"{counted(run.result['clients'], 'client')} and exported by fedcord {__version__}. It "
        f"tells {counted(run.facts.num_classes, 'class', 'classes')} apart: "
        f"{', '.join(run.facts.class_names)}."
    )


def _use(model: TrainedModel) -> str:
    facts = model.facts
    shape = ", ".join(map(str, facts.input_shape))
    dtype = str(DTYPES[facts.kind])
    text = (
        "`model.pt2` needs PyTorch and nothing else:\n\n"
        "```python\nimport json\nfrom pathlib import Path\n\nimport torch\n\n"
        'run = torch.export.load("model.pt2").module()\n'
        f"inputs = torch.zeros(2, {shape}, dtype={dtype})  # your examples\n"
        "scores = run(inputs)\n"
        'classes = json.loads(Path("model.json").read_text())["task"]["class_names"]\n'
        "answers = [classes[best] for best in scores.argmax(dim=1)]\n```\n\n"
        f"Inputs are `{dtype}` of shape `[batch, {shape}]`, {FORMS[facts.kind]}; any batch from 1. "
        "Scaling is part of the program. "
    )
    if model.config.test_views is not None:
        text += (
            f"So are the {NUM_VIEWS[model.config.test_views]} views of each image "
            f"(`{model.config.test_views}`) over which scores are averaged. "
        )
    if facts.preparation is not None:
        text += (
            "The model was trained on a table: `model.json` says in `task.preparation` how columns "
            "become these numbers, in this order: "
            f"{', '.join(f'`{name}`' for name in facts.preparation.input_names)}. "
        )
    return (
        text + "With fedcord, `fedcord predict DIR --data …` and `fedcord.load(DIR)` do the rest."
    )


def _data(run: FinishedRun) -> str:
    rows = run.partition.get("counts") or []
    told = [sum(row) for row in rows if row is not None]
    size = f"{sum(told):,} training examples" if len(told) == len(rows) else "data at sites"
    clients = counted(run.result["clients"], "client")
    return (
        f"`{short_data(run.config.dataset)}`, {size} over {clients} "
        f"(`{run.result['partition']}`). Licence of the data: {_licence(run)}. The licence of the "
        "model is for its owner to choose."
    )


def _licence(run: FinishedRun) -> str:
    if run.config.dataset.startswith(OWN_DATA) or run.is_over_sites:
        return "its owners'"
    parsed, info = check_spec(run.config.dataset)
    return info.licence if parsed.name in DATASETS else "its owner's"


def _method(run: FinishedRun) -> str:
    name = run.config.algorithm
    entry = ALGORITHMS.get(name)
    lines = [
        f"`{name}`" + (f": {entry.summary}." if entry is not None else ", a method of one's own.")
    ]
    lines.append(f"Networks: {', '.join(f'`{model}`' for model in run.result['model'])}.")
    lines.append("Parameters:\n\n```json\n" + json.dumps(run.config.params, indent=1) + "\n```")
    if run.result.get("forgotten"):
        gone = ", ".join(client_said(k, run.names) for k in run.result["forgotten"])
        lines.append(f"Taken out of the model after the run: {gone}.")
    if run.result.get("joined"):
        late = ", ".join(client_said(k, run.names) for k in run.result["joined"])
        lines.append(f"Joined after the run: {late}.")
    return " ".join(lines[:2]) + "\n\n" + "\n\n".join(lines[2:])


def _metrics(run: FinishedRun) -> str:
    results = _same_but_seed(run)
    rows = []
    for name, metric in METRICS.items():
        own = _value(run.result, name)
        if own is None:
            continue
        cells = [metric.title, _number(metric, own)]
        if len(results) > 1:
            values = [_value(result, name) for result in results]
            known = [value for value in values if value is not None]
            cells += _over_seeds(metric, known) if len(known) == len(values) else [NOTHING] * 2
        rows.append(cells)
    heads = ["metric", "this model"]
    if len(results) > 1:
        heads += [f"mean over {len(results)} seeds", "95 % interval"]
    on = run.result["accuracy_on"]
    return f"Of the final model on: {on}.\n\n{_table(heads, rows)}"


def _value(result: Mapping[str, Any], name: str) -> float | None:
    found = result.get("metrics", {}).get(name, result.get(name))
    return float(found) if isinstance(found, int | float) else None


def _number(metric: Metric, value: float) -> str:
    return f"{percent(value)} %" if metric.is_share else fixed(value, 4)


def _over_seeds(metric: Metric, values: Sequence[float]) -> list[str]:
    interval: MeanInterval = (share_interval if metric.is_share else mean_interval)(values)
    scale, decimals = (100, 2) if metric.is_share else (1, 4)
    return [_number(metric, interval.mean), bracket(interval, decimals, scale)]


def _same_but_seed(run: FinishedRun) -> list[Mapping[str, Any]]:
    """Results of the study's other seeds; of a run that stands alone, its own."""
    path = run.path.resolve()
    if path.name != f"seed-{run.config.seed}" or _is_made(run.result):
        return [run.result]
    mine, found = {**run.config.plain(), "seed": None}, []
    for folder in sorted(path.parent.glob("seed-*"), key=lambda place: place.name):
        other = RunFolder(folder)
        try:
            if other.is_finished and {**other.read_config(), "seed": None} == _plain(mine):
                other.check()
                found.append(other.read_json(RESULT))
        except CheckpointError:
            return [run.result]  # a study that is not whole has no interval
    return [result for result in found if not _is_made(result)]


def _is_made(result: Mapping[str, Any]) -> bool:
    """Whether it is of a run that clients have left or joined afterwards."""
    return bool(result.get("forgotten") or result.get("joined"))


def _plain(values: object) -> Any:
    return json.loads(json.dumps(values))


def _classes(run: FinishedRun) -> list[str]:
    classes = run.result.get("classes")
    if not classes:
        return []
    rows = [
        [
            str(own["name"]),
            f"{own['examples']:,}",
            *(percent(own.get(m), 1) for m in METRIC_COLUMNS),
        ]
        for own in classes
    ]
    return ["## Classes\n\n" + _table(["class", "test examples", *METRIC_COLUMNS.values()], rows)]


def _costs(run: FinishedRun) -> str:
    result = run.result
    return (
        f"{counted(result['rounds'], 'round')}, {byte_size(result['bytes_up'])} from clients to "
        f"the server and {byte_size(result['bytes_down'])} back, {result['seconds']:.1f} s in all."
    )


def _privacy(run: FinishedRun, model: TrainedModel) -> str:
    config, client = run.config, model.moment.client
    env = Env(model.plan.task, config.seed, model.moment.round, model.moment.num_rounds).at(0)
    sends = model.plan.algorithm.expected_update(run.checkpoint.state.shared, env)
    groups: dict[str, int] = {}
    for name in sends:
        groups[name.partition(".")[0]] = groups.get(name.partition(".")[0], 0) + 1
    what = ", ".join(f"`{name}` ({counted(count, 'tensor')})" for name, count in groups.items())
    lines = [
        f"What left a client in the last round{'' if run.is_over_sites else ' (simulated)'}: "
        f"{what}, its number of examples, and numbers on its training; the server refuses anything "
        "else. Tests add counts of answers and summed losses.",
        _masks(config.secure),
        _noise(config.params, run.result.get("privacy")),
    ]
    if client is not None:
        lines.append("This folder holds what one client alone had: treat it as that client's data.")
    return "\n".join(f"- {line}" for line in lines)


def _masks(secure: float | None) -> str:
    if secure is None:
        return "Updates were not masked: the server could read each client's."
    return (
        "Updates were masked by secure aggregation: the server read their sum and none of them, as "
        f"long as {100 * secure:g} % of the clients stayed to the end and the server kept to the "
        "protocol."
    )


def _noise(params: Mapping[str, Any], spent: Mapping[str, Any] | None) -> str:
    if spent is not None:
        return str(spent["statement"])
    stated = [own for own in _nested(params) if own.get("epsilon") is not None]
    if not stated:
        return "No noise was added: there is no guarantee of differential privacy."
    return "".join(
        f"Differential privacy was asked for with ε = {own['epsilon']:g} and δ = {own['delta']:g}."
        for own in stated
    )


def _nested(params: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield params
    for value in params.values():
        if isinstance(value, Mapping):
            yield from _nested(value)


def _origin(run: FinishedRun) -> str:
    packages = run.provenance.get("packages") or {}
    made = ", ".join(
        f"{name} {packages[name]}" for name in ("fedcord", "torch") if name in packages
    )
    command = command_without_folders(str(run.provenance.get("command", "")))
    return (
        f"```\n{command}\n```\n\nMade with {made}, seed {run.config.seed}. "
        f"State `{run.result.get('state_hash')}`, data `{run.provenance.get('data_hash')}`."
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)

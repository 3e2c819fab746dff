"""What does not fit, of all contenders of a study at once and before anything is written.

A study may run for days. Settings that cannot work with the data are told before the first run, all
in one message, instead of ending the study when their turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, DataError
from fedcord.data.dataset import Dataset
from fedcord.data.download import Progress as DownloadProgress
from fedcord.data.facts import DataFacts, Stated
from fedcord.experiment.build import Plan, as_vectors, dealt, fitted, load_configured
from fedcord.experiment.config import RunConfig, partition_of


def review_contenders(
    contenders: Mapping[str, RunConfig],
    seeds: Sequence[int],
    dataset: Dataset | None = None,
    data_dirs: Sequence[Path] | None = None,
    allow_download: bool = False,
    on_download: DownloadProgress | None = None,
    stated: Stated = Stated(),  # noqa: B008 - frozen
) -> dict[str, int]:
    """Try what runs do before their first file, and refuse every misfit together.

    Args:
        contenders: label to configuration; their data is the same.
        seeds: of the runs to come.
        dataset: the user's own data instead of the configured name.
        data_dirs: where to look for data files.
        allow_download: whether missing data may be fetched from its official place.
        on_download: (bytes held, bytes in all or None) while data is fetched.
        stated: what the data must be like.

    Returns:
        How many weights each contender trains, by which their runs can be told big or small.

    Raises:
        ConfigError: what is wrong, and with which contenders where not with all.
        DataError: the data cannot be used, or not be distributed under one of the seeds.
    """
    any_config = next(iter(contenders.values()))
    if dataset is None:
        dataset = load_configured(any_config, data_dirs, allow_download, on_download)
    differences = stated.differences(DataFacts.of(dataset))
    if differences:
        raise ConfigError([f"data set '{dataset.name}': {words}." for words in differences])
    for seed in seeds[1:]:
        try:
            partition_of(replace(any_config, seed=seed), dataset)
        except DataError as error:
            raise DataError(f"seed {seed}: {error}") from error
    dataset = as_vectors(replace(any_config, seed=seeds[0]), dataset)
    _, population = dealt(replace(any_config, seed=seeds[0]), dataset)
    whose: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for label, config in contenders.items():
        try:
            plan = fitted(config, dataset, population, data_dirs)
            _check_start(plan)
            weights = plan.task.scratch_network().parameters()
            sizes[label] = sum(one.numel() for one in weights if one.requires_grad)
        except ConfigError as error:
            for problem in error.problems:
                whose.setdefault(problem, []).append(label)
    if whose:
        raise ConfigError([_said(*item, len(contenders)) for item in whose.items()])
    return sizes


def _check_start(plan: Plan) -> None:
    """Make the first state, unless features come first, which take their time."""
    config = plan.config
    assert config.rounds is not None
    if plan.encoder is None:
        plan.algorithm.init(Env(plan.task, config.seed, num_rounds=config.rounds))


def _said(problem: str, labels: Sequence[str], num_contenders: int) -> str:
    is_clear = len(labels) == num_contenders or problem.startswith(labels[0])
    return problem if is_clear else f"{', '.join(labels)}: {problem}"

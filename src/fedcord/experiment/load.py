"""Settings from flags and files, checked together before any data is loaded."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.core.errors import ConfigError, DataError, unknown_name
from fedcord.core.names import is_text
from fedcord.core.params import build, plain
from fedcord.core.regular_files import read_regular
from fedcord.data.partition import PARTITIONS
from fedcord.data.partition import check_spec as check_partition
from fedcord.data.registry import check_spec as check_dataset
from fedcord.experiment.config import DEFAULT_ROUNDS, RunConfig
from fedcord.models.registry import check_model

OWN_DATA = "own:"
"""Prefix of the name of data that was passed as an object."""


def load_config(
    settings: Mapping[str, Any], assignments: Sequence[str] = (), fixed_rounds_win: bool = False
) -> RunConfig:
    """A complete configuration, or one ConfigError with every mistake.

    Args:
        settings: values for the fields of RunConfig; `params` may hold algorithm parameters.
        assignments: `key=value` texts for algorithm parameters, as given to `--set`.
        fixed_rounds_win: whether a method that fixes its rounds overrides the setting, as it must
            where one-shot and many-round methods are compared; otherwise that is a mistake.
    """
    config, problems = _checked(settings)
    params, more = _params(config.algorithm, settings.get("params", {}), assignments)
    problems += more
    rounds = config.rounds
    if config.algorithm in ALGORITHMS or ":" in config.algorithm:
        try:
            algorithm = build(algorithm_class(config.algorithm), params)
        except ConfigError as error:
            problems += error.problems
        else:
            params = plain(algorithm)
            fixed = algorithm.rounds
            if fixed is not None and rounds not in (None, fixed) and not fixed_rounds_win:
                problems.append(
                    f"rounds = {rounds}: {config.algorithm} needs exactly {fixed}; "
                    "leave --rounds out."
                )
            rounds = fixed or rounds or DEFAULT_ROUNDS
    else:
        problems.append(unknown_name("algorithm", config.algorithm, ALGORITHMS))
    if problems:
        raise ConfigError(problems)
    return dataclasses.replace(config, rounds=rounds, params=params)


def load_data_config(settings: Mapping[str, Any]) -> RunConfig:
    """The part of a configuration that concerns data and clients; needs no PyTorch."""
    config, problems = _checked(settings)
    if problems:
        raise ConfigError(problems)
    return config


def _checked(settings: Mapping[str, Any]) -> tuple[RunConfig, list[str]]:
    """A configuration from whatever of `settings` is right, and what is wrong with the rest."""
    problems: list[str] = []
    values = {name: value for name, value in settings.items() if name != "params"}
    kind = PARTITIONS.get(str(values.get("partition", "")).partition(":")[0].partition(",")[0])
    if kind is not None and not kind.needs_clients:
        values.setdefault("clients", 0)  # the data says how many there are
    try:
        config = build(RunConfig, values)
    except ConfigError as error:
        problems += error.problems
        known = {f.name for f in dataclasses.fields(RunConfig)}
        usable = {}
        for name, value in values.items():
            if name in known:
                try:
                    build(RunConfig, {name: value})
                except ConfigError:
                    continue
                usable[name] = value
        config = build(RunConfig, usable)
    return config, problems + _names(config)


def read_toml(path: Path) -> dict[str, Any]:
    """A study or configuration file, or a ConfigError that says what is wrong with it."""
    try:
        return tomllib.loads(read_regular(path).decode())
    except FileNotFoundError as error:
        raise ConfigError(f"'{path}' does not exist.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' cannot be read ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"'{path}' is not valid TOML ({error}); correct that line.") from error


def parse_assignment(text: str) -> tuple[tuple[str, ...], Any]:
    """`a.b=value` to (("a", "b"), value); values are TOML, anything else is a word.

    >>> parse_assignment("local.lr=0.1")
    (('local', 'lr'), 0.1)
    >>> parse_assignment("local.optimizer=adam")
    (('local', 'optimizer'), 'adam')
    """
    key, equals, value = text.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path):
        raise ConfigError(f"--set '{text}': expected key=value, such as local.lr=0.1.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return path, parsed


def _names(config: RunConfig) -> list[str]:
    """Mistakes that show without any data: names and arguments."""
    problems = []
    for name in ("dataset", "partition"):
        if not is_text(getattr(config, name)):
            problems.append(
                f"{name} = {getattr(config, name)!a}: it holds bytes that are not UTF-8, which no "
                "configuration file can store; rename the file or folder."
            )
    if problems:  # nothing below could show the name
        return problems
    if not config.dataset.startswith(OWN_DATA):
        try:
            check_dataset(config.dataset)
        except DataError as error:
            problems.append(str(error))
    problems += check_partition(config.partition, config.clients)
    for model in config.model:
        problems += check_model(model)
    if config.validation + config.test >= 1:
        problems.append(
            f"validation = {config.validation:g} and test = {config.test:g} leave nothing to "
            "train on; their sum must be below 1."
        )
    return problems


def _params(
    algorithm: str, given: Mapping[str, Any], assignments: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The preset of the name, then the file's values, then `--set`, the later winning."""
    problems: list[str] = []
    params: dict[str, Any] = {}
    if algorithm in ALGORITHMS:
        _merge(params, ALGORITHMS[algorithm].preset)
    _merge(params, given)
    for text in assignments:
        try:
            path, value = parse_assignment(text)
        except ConfigError as error:
            problems += error.problems
            continue
        for name in reversed(path):
            value = {name: value}
        _merge(params, value)
    return params, problems


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(name, {}), dict):
            into[name] = dict(into.get(name, {}))
            _merge(into[name], value)
        else:
            into[name] = value

"""Settings from flags and files, checked together before any data is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import (
    ALGORITHMS,
    algorithm_class,
    algorithm_name,
    is_algorithm,
)
from fedcord.core.device import chosen_device, device_problem
from fedcord.core.errors import ConfigError, DataError, gather, shown, unknown_name
from fedcord.core.params import build, conformed, parameters_like, plain
from fedcord.core.regular_files import NotRegularError, check_regular
from fedcord.core.toml import parse_toml, parse_value
from fedcord.data.partition import PARTITIONS
from fedcord.data.partition import check_spec as check_partition
from fedcord.data.registry import check_spec as check_dataset
from fedcord.experiment.attackers import attack_problems
from fedcord.experiment.config import (
    AT_SITES,
    DEFAULT_ROUNDS,
    SETTINGS,
    SITES_PARTITION,
    RunConfig,
)
from fedcord.models.registry import check_model

OWN_DATA = "own:"
"""Prefix of the name of data that was passed as an object."""
MAX_FILE_BYTES = 16 * 2**20
"""Of a study file; longer ones are something else."""


def load_config(
    settings: Mapping[str, Any], assignments: Sequence[str] = (), fixed_rounds_win: bool = False
) -> RunConfig:
    """A complete configuration, or one ConfigError with every mistake.

    Args:
        settings: values for the fields of RunConfig; `params` may hold algorithm parameters, and
            `algorithm` may be an object instead of a name. It is then used as it is, unless there
            are parameters that differ from its own.
        assignments: `key=value` texts for algorithm parameters, as given to `--set`.
        fixed_rounds_win: whether a method that fixes its rounds overrides the setting, as it must
            where one-shot and many-round methods are compared; otherwise that is a mistake.
    """
    given = settings.get("algorithm")
    own: dict[str, Any] | None = None
    if is_algorithm(given) and not isinstance(given, type):
        settings = {**settings, "algorithm": algorithm_name(given)}
        own = plain(given)
    config, problems = _checked(settings)
    params, more = _params(config.algorithm, own, settings.get("params", {}), assignments)
    problems += more
    rounds = config.rounds
    algorithm: Any = None
    cls: type[Any] = RunConfig
    with gather(problems):
        cls = algorithm_class(config.algorithm)
        if own is not None and own == params:
            algorithm = conformed(given)
        else:
            algorithm = build(cls, params, see=f"fedcord list algorithms {config.algorithm}")
        from fedcord.core.declaration import check_declaration  # imports PyTorch

        check_declaration(algorithm)
        fixed = algorithm.traits.rounds
        if fixed is not None and rounds not in (None, fixed) and not fixed_rounds_win:
            problems.append(
                f"rounds = {rounds}: {config.algorithm} needs exactly {fixed}; leave --rounds out."
            )
        rounds = fixed or rounds or DEFAULT_ROUNDS
    problems += _misplaced(settings, config.algorithm, cls)
    if problems:
        raise ConfigError(problems)
    device = chosen_device(config.device)
    return dataclasses.replace(config, rounds=rounds, device=device, method=algorithm)


def load_data_config(settings: Mapping[str, Any]) -> RunConfig:
    """The part of a configuration that concerns data and clients; needs no PyTorch."""
    config, problems = _checked(settings)
    if problems:
        raise ConfigError(problems)
    return config


def _checked(settings: Mapping[str, Any]) -> tuple[RunConfig, list[str]]:
    """A configuration from whatever of `settings` is right, and what is wrong with the rest."""
    problems: list[str] = []
    values = {name: settings[name] for name in settings if name in SETTINGS}
    if isinstance(values.get("model"), str):
        values["model"] = [values["model"]]
    usable: dict[str, Any] = {}
    for name, value in values.items():
        with gather(problems):
            build(RunConfig, {name: value})
            usable[name] = value
    if str(usable.get("dataset", "")).startswith(AT_SITES):
        usable.setdefault("partition", SITES_PARTITION)
    kind = PARTITIONS.get(usable.get("partition", "").partition(":")[0].partition(",")[0])
    if kind is not None and not kind.needs_clients and "clients" not in values:
        usable["clients"] = 0  # the data says how many there are
    config = build(RunConfig, usable)
    return config, problems + _names(config)


def _misplaced(settings: Mapping[str, Any], algorithm: str, cls: type[Any]) -> list[str]:
    """Settings that are none; most often they are parameters of the algorithm."""
    problems = []
    for name, value in settings.items():
        if name in SETTINGS or name == "params":
            continue
        own = parameters_like(cls, name)
        if own:
            written = shown(nested(own[0].split("."), value))
            problems.append(
                f"'{name}' is not a setting but {own[0]} of {algorithm}; write "
                f"--set {own[0]}={value}, [params] {own[0]} in a study file, or params={written}."
            )
        else:
            problems.append(unknown_name("setting", str(name), SETTINGS))
    return problems


def read_toml(path: Path) -> dict[str, Any]:
    """A study file, or a ConfigError that says what is wrong with it."""
    try:
        if check_regular(path) > MAX_FILE_BYTES:
            raise ConfigError(f"'{path}' is too long for a study file ({MAX_FILE_BYTES:,} bytes).")
        return parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"'{path}' does not exist.") from error
    except NotRegularError as error:
        raise ConfigError(f"'{path}' cannot be read ({error}); name a study file.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' cannot be read ({error}).") from error
    except ValueError as error:
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
        raise ConfigError(f"--set {shown(text)}: expected key=value, such as local.lr=0.1.")
    return path, parse_value(value)


def _names(config: RunConfig) -> list[str]:
    """Mistakes that show without any data: names and arguments."""
    problems = []
    if config.dataset.startswith(AT_SITES):
        problems += _sites_problems(config)
    elif not config.dataset.startswith(OWN_DATA):
        try:
            check_dataset(config.dataset)
        except DataError as error:
            problems.append(str(error))
    problems += check_partition(config.partition, config.clients)
    problems += attack_problems(config.attack)
    problems += filter(None, [device_problem(config.device)])
    for model in config.model:
        problems += check_model(model, with_weights=False)  # where they lie is not known yet
    if config.validation + config.test >= 1:
        problems.append(
            f"validation = {config.validation:g} and test = {config.test:g} leave nothing to "
            "train on; their sum must be below 1."
        )
    return problems


def _sites_problems(config: RunConfig) -> list[str]:
    """Data at sites is as it is: nobody deals it out or thins it."""
    usual = {"partition": SITES_PARTITION, "subset": None, "longtail": 1.0, "attack": None}
    return [
        f"{name} = {getattr(config, name)}: the data of '{config.dataset}' lies at sites, each of "
        f"which has its own; leave {name} out."
        for name, value in usual.items()
        if getattr(config, name) != value
    ] + (
        [] if len(config.dataset) > len(AT_SITES) else ["sites: needs a name, such as sites:eyes."]
    )


def _params(
    algorithm: str, own: Mapping[str, Any] | None, given: object, assignments: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Those of the object or the name's preset, then the file's, then `--set`; the later win."""
    problems: list[str] = []
    params = dict(own or {})
    if algorithm in ALGORITHMS:
        params = merged(params, ALGORITHMS[algorithm].preset)
    if isinstance(given, Mapping):
        params = merged(params, given)
    else:
        problems.append(f"params = {shown(given)}: must be a table of parameters.")
    for text in assignments:
        with gather(problems):
            params = merged(params, nested(*parse_assignment(text)))
    return params, problems


def nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    """A value below its names: (("a", "b"), 1) to {"a": {"b": 1}}."""
    for name in reversed(path):
        value = {name: value}
    below: dict[str, Any] = value
    return below


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values of which `more` wins, part by part.

    >>> merged({"local": {"lr": 0.1, "epochs": 2}}, {"local": {"lr": 0.3}})
    {'local': {'lr': 0.3, 'epochs': 2}}
    """
    out = dict(base)
    for name, value in more.items():
        part = out.get(name, {})
        both = isinstance(value, Mapping) and isinstance(part, Mapping)
        out[name] = merged(part, value) if both else value
    return out

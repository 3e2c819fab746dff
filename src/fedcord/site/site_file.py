"""`site.toml`: how a site names its data, in a file that never leaves it.

client = 1                   # its number in the study, from 0
name = "hospital B"          # what people call it
data = "npz:cases.npz"       # relative to this file
memory = "fedcord-site/"     # what is kept between rounds

A named data set with `partition` and `clients` is a rehearsal: the site takes the slice that this
client would have in a simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fedcord.core.device import device_problem
from fedcord.core.errors import ConfigError, DataError, gather, shown
from fedcord.core.folders import user_path
from fedcord.core.names import LONGEST_CLIENT_NAME, client_said
from fedcord.core.params import LARGEST, build, check_params, param
from fedcord.data.partition import check_spec as check_partition
from fedcord.data.registry import USER_FORMATS
from fedcord.data.registry import check_spec as check_dataset
from fedcord.data.spec import DatasetSpec
from fedcord.experiment.load import read_toml

REQUIRED = "required"
"""Of `secure`: the site insists on masks."""


@dataclass(frozen=True)
class SiteFile:
    """The entries of a site's file, paths made whole.

    Attributes:
        path: of the file.
        client: its number in the study.
        name: what people call it.
        data: of its own, or the data set of a rehearsal.
        partition: how a rehearsal's data set is spread; None: the data is the site's own.
        clients: of a rehearsal.
        seed: of a rehearsal; None: the run's.
        test: a share of its own data, or other data of its own, to test on; None: the test part
            that its data has.
        memory: folder of what is kept between rounds.
        share_class_counts: whether the server may know how many examples of each class there are.
        algorithms: methods of one's own, `module:Class`, that a server may ask for.
        data_dirs: where weights and named data sets are looked for; none: the usual places.
        device: where networks run at this site; None: as the study says.
        insists_on_masks: whether it sends an update in the open only where that cannot be masked.
    """

    path: Path
    client: int
    name: str
    data: str
    partition: str | None
    clients: int | None
    seed: int | None
    test: float | str | None
    memory: Path
    share_class_counts: bool
    algorithms: tuple[str, ...]
    data_dirs: tuple[Path, ...]
    device: str | None = None
    insists_on_masks: bool = False

    @property
    def is_rehearsal(self) -> bool:
        """Whether everybody could have this data."""
        return self.partition is not None

    @property
    def who(self) -> str:
        """For messages."""
        return client_said(self.client, {self.client: self.name})


@dataclass(frozen=True)
class _Entries:
    """As they are written."""

    client: int | None = param(None, "number in the study", at_least=0, at_most=LARGEST)
    name: str = param("", "what people call the site")
    data: str = param("", "npz:PATH, csv:PATH, folder:PATH, or a data set to rehearse with")
    partition: str | None = param(None, "of a rehearsal")
    clients: int | None = param(None, "of a rehearsal", at_least=1)
    seed: int | None = param(None, "of a rehearsal", at_least=0)
    test: float | str | None = param(None, "share or data of its own to test on", above=0, below=1)
    memory: str = param("fedcord-site", "folder of what is kept between rounds")
    share_class_counts: bool = param(False, "whether the server may know the counts of classes")
    algorithms: tuple[str, ...] = param((), "methods of one's own, module:Class")
    data_dirs: tuple[str, ...] = param((), "where weights and data sets are looked for")
    device: str | None = param(None, "where networks run here: auto, cpu, cuda, cuda:1 or mps")
    secure: str | None = param(None, "'required': no update in the open that can be masked")

    def __post_init__(self) -> None:
        check_params(self)


def load_site(path: Path) -> SiteFile:
    """A site's file, or one ConfigError with every mistake."""
    values, problems = read_toml(path), list[str]()
    try:
        entries = build(_Entries, values)
    except ConfigError as error:
        raise ConfigError([f"'{path}': {problem}" for problem in error.problems]) from error
    if entries.client is None:
        problems.append("client is missing; say which of the study's clients this is, from 0.")
    if not entries.data:
        problems.append("data is missing; name it, such as data = 'npz:cases.npz'.")
    else:
        problems += _data_problems("data", entries.data)
        if not problems and entries.partition is None and not _parsed(entries.data).path:
            problems.append(
                f"data = {shown(entries.data)}: everybody has it, so it is for rehearsals; add "
                "partition, such as 'dirichlet:0.1', and clients."
            )
    if isinstance(entries.test, str):
        problems += _data_problems("test", entries.test)
    if len(entries.name) > LONGEST_CLIENT_NAME:
        problems.append(f"name has more than {LONGEST_CLIENT_NAME} characters; shorten it.")
    if entries.device is not None:
        problems += filter(None, [device_problem(entries.device)])
    if entries.secure not in (None, REQUIRED):
        problems.append(
            f"secure = {shown(entries.secure)}: must be '{REQUIRED}', or be left out; how many "
            "clients must stay is for the study to say."
        )
    problems += _rehearsal_problems(entries)
    home = path.resolve().parent
    if problems:
        raise ConfigError([f"'{path}': {problem}" for problem in problems])
    assert entries.client is not None
    test = entries.test
    return SiteFile(
        path=path,
        client=entries.client,
        name=entries.name,
        data=whole_name(entries.data, home),
        partition=entries.partition,
        clients=entries.clients,
        seed=entries.seed,
        test=whole_name(test, home) if isinstance(test, str) else test,
        memory=home / user_path(entries.memory),
        share_class_counts=entries.share_class_counts or entries.partition is not None,
        algorithms=entries.algorithms,
        data_dirs=tuple(home / user_path(folder) for folder in entries.data_dirs),
        device=entries.device,
        insists_on_masks=entries.secure == REQUIRED,
    )


def _data_problems(entry: str, spec: str) -> list[str]:
    try:
        check_dataset(spec)
    except DataError as error:
        return [f"{entry} = {shown(spec)}: {error}"]
    return []


def _rehearsal_problems(entries: _Entries) -> list[str]:
    if entries.partition is None:
        lone = [name for name in ("clients", "seed") if getattr(entries, name) is not None]
        return [
            f"{name} belongs to a rehearsal, which also has a partition; leave it out, or add one "
            "such as partition = 'dirichlet:0.1'."
            for name in lone
        ]
    problems = list[str]()
    if entries.test is not None:
        problems.append("test: a rehearsal tests as the study says; leave it out.")
    with gather(problems):
        problems += check_partition(entries.partition, entries.clients or 0)
    if None not in (entries.client, entries.clients) and entries.client >= entries.clients:  # type: ignore[operator]
        problems.append(
            f"client = {entries.client}: with clients = {entries.clients} they are numbered 0 to "
            f"{entries.clients - 1}."  # type: ignore[operator]
        )
    return problems


def whole_name(spec: str, home: Path) -> str:
    """A data set's name with its path, if it has one, seen from anywhere."""
    parsed = _parsed(spec)
    if not parsed.path:
        return spec
    options = "&".join(f"{key}={value}" for key, value in parsed.options.items())
    named = replace(parsed, path=str(home / user_path(parsed.path)))
    return f"{named.name}:{named.path}" + (f"?{options}" if options else "")


def _parsed(spec: str) -> DatasetSpec:
    return DatasetSpec.parse(spec, USER_FORMATS)

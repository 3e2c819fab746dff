"""Which folder a run may use: a new one of its own, or one that holds this very run."""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path

from fedcord.core.errors import CheckpointError, ConfigError, FailedRunError
from fedcord.core.names import folder_name
from fedcord.experiment.config import RunConfig
from fedcord.store.checksums import FAILURE, PROVENANCE
from fedcord.store.run_folder import RunFolder

RUNS = Path("runs")
"""Where runs go that were given no folder."""


def make_new_folder(root: Path, config: RunConfig) -> Path:
    """Make a folder nobody else has: time, algorithm, data, seed, and a number if that is taken."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    data = config.dataset.split(":")[0].split("?")[0]
    algorithm = folder_name(config.algorithm)  # module:Class has a colon
    base = f"{stamp}-{algorithm}-{folder_name(data)}-seed{config.seed}"
    RunFolder(root).create()
    path, number = root / base, 1
    while not _make(path):
        number += 1
        path = root / f"{base}-{number}"
    return path


def find_run_to_resume(root: Path, config: RunConfig) -> Path:
    """The newest run in `root` with this very configuration."""
    for path in sorted(root.glob("*/config.toml"), reverse=True):
        folder = RunFolder(path.parent)
        with contextlib.suppress(CheckpointError):
            is_same = not config.differences(folder.read_config())
            origin = folder.read_json(PROVENANCE)
            if is_same and not (origin.get("forgotten") or origin.get("joined")):
                return folder.path
    raise ConfigError(
        f"--resume: no run with these settings in '{root}'; name its folder with --out, or leave "
        "--resume out."
    )


def check_folder(folder: RunFolder, config: RunConfig, *, resume: bool, retry_failed: bool) -> None:
    """Refuse a folder that holds anything else, or a run that is not to be gone on with."""
    if not folder.is_started:
        strangers = folder.strangers()
        if strangers:
            few = ", ".join(strangers[:3]) + (", …" if len(strangers) > 3 else "")
            raise ConfigError(
                f"'{folder.path}' holds other files ({few}); choose an empty folder with --out."
            )
        return
    if not resume:
        state = "finished" if folder.is_finished else "unfinished"
        flag = "--resume to go on with it"
        if folder.has_failed:
            state, flag = "failed", "--retry-failed to try it again"
        raise ConfigError(
            f"'{folder.path}' already holds a run ({state}); add {flag}, or choose another folder "
            "with --out."
        )
    differences = config.differences(folder.read_config())
    if differences:
        raise ConfigError(
            f"'{folder.path}' holds a run with other settings ({'; '.join(differences)}); "
            "use the same settings, or another folder."
        )
    if folder.has_failed and not retry_failed:
        folder.check()
        known = folder.read_json(FAILURE)
        raise FailedRunError(
            f"'{folder.path}' failed before ({known.get('error')}: {known.get('message')}) and "
            "would again, unless something else has changed; --retry-failed tries it again."
        )


def _make(path: Path) -> bool:
    """Make a folder, unless somebody has, perhaps this very moment."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True

"""What a run's results rest on, recognised again: a SHA-256 for each of its files.

The file is in the format of `sha256sum`, so that `sha256sum --check SHA256SUMS` verifies a folder
without fedcord. Checkpoints are not listed: they are large, and each holds its own hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import CheckpointError

CHECKSUMS = "SHA256SUMS"
CONFIG, PARTITION, PROVENANCE = "config.toml", "partition.json", "provenance.json"
METRICS, RESULT, FAILURE = "metrics.jsonl", "result.json", "failure.json"
START_FILES = (CONFIG, PARTITION, PROVENANCE)
"""What is there from the start of a run and never changes."""
FINISHED_FILES = (*START_FILES, METRICS, RESULT)
FORGETTING = "forgetting.json"
"""There while a client is taken out of a run in place: the other files are of both models."""


def write_checksums(folder: Path, names: Sequence[str], coming: Mapping[str, str]) -> None:
    """List the files `names`, and those that are about to be written, with their content."""
    sums = {name: sha256((folder / name).read_bytes()) for name in names}
    sums |= {name: sha256(text.encode()) for name, text in coming.items()}
    _write(folder, sums)


def add_checksum(folder: Path, name: str, text: str) -> None:
    """List one file that is about to be written, beside what is listed already."""
    sums = (read_checksums(folder / CHECKSUMS) or {}) | {name: sha256(text.encode())}
    _write(folder, sums)


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    lines = (f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    write_atomically(folder / CHECKSUMS, "".join(lines))


def check_run(folder: Path) -> bool:
    """Compare the files of a run with their checksums.

    Returns:
        Whether there are checksums; versions before wrote none.

    Raises:
        CheckpointError: a file is missing or not as it was written.
    """
    if (folder / FORGETTING).exists():
        raise CheckpointError(
            f"'{folder}' is half changed: forgetting a client was interrupted; repeat that "
            "'fedcord forget' with --in-place first."
        )
    return check_files(folder, _results_rest_on(folder))


def check_files(folder: Path, names: Sequence[str]) -> bool:
    """Compare the files `names` with their checksums, as `check_run` does."""
    known = read_checksums(folder / CHECKSUMS)
    if known is None:
        return False
    for name in names:
        path = folder / name
        if name not in known:
            raise _changed(folder / CHECKSUMS, f"it does not list {name}")
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise _changed(path, "it is missing") from error
        if sha256(content) != known[name]:
            raise _changed(path, f"its SHA-256 is not the one in {CHECKSUMS}")
    return True


def _results_rest_on(folder: Path) -> tuple[str, ...]:
    """What is believed of a run that is finished, has failed, or is on its way."""
    if (folder / RESULT).exists():
        return FINISHED_FILES
    return (*START_FILES, FAILURE) if (folder / FAILURE).exists() else START_FILES


def sha256(content: bytes) -> str:
    """The hash in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_checksums(path: Path) -> dict[str, str] | None:
    """The hash of each file that is listed; None where there is no list."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    known = {}
    for line in content.decode("utf-8", "replace").splitlines():
        found = re.fullmatch(r"([0-9a-f]{64})  (\S+)", line)
        if found is None:
            raise _changed(path, "a line is not a checksum and a name")
        known[found[2]] = found[1]
    return known


def _changed(path: Path, how: str) -> CheckpointError:
    return CheckpointError(
        f"'{path}' is not as fedcord wrote it: {how}. Restore the folder from a copy, or delete it "
        "and run again."
    )

"""Where the weights of frozen encoders are found; needs no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from fedcord.core.errors import DataError, unknown_name
from fedcord.core.folders import data_folders
from fedcord.models.options import FrozenOptions

ENCODERS = ("pixels", "random-conv", "efficientnet-lite0", "hf:MODEL")
"""Names that may follow `frozen:`."""


def find_weights(name: str, data_dirs: Sequence[str | Path] = ()) -> Path | None:
    """The weights of an encoder, `NAME/*.safetensors` before `NAME/*.pth`, or None."""
    for folder in data_folders(data_dirs):
        for pattern in ("*.safetensors", "*.pth"):
            found = sorted((folder / name).glob(pattern))
            if found:
                return found[0]
    return None


def encoder_problems(options: FrozenOptions) -> list[str]:
    """What is wrong with the name of an encoder, wherever its weights are."""
    if options.file or options.encoder.startswith("hf:") or options.encoder in ENCODERS:
        return []
    return [unknown_name("encoder", options.encoder, ENCODERS)]


def missing_weights(options: FrozenOptions, data_dirs: Sequence[str | Path] = ()) -> list[str]:
    """Why an encoder whose name is known cannot be loaded, as far as file names tell."""
    if options.file:
        return [] if Path(options.file).is_file() else [f"there is no file {options.file}."]
    if options.encoder == "efficientnet-lite0" and find_weights(options.encoder, data_dirs) is None:
        folders = ", ".join(map(str, data_folders(data_dirs))) or "any folder"
        return [
            f"no {options.encoder}/*.pth or *.safetensors in {folders}; put the weights there or "
            "name their folder in FEDCORD_DATA."
        ]
    return []


def check_name_hash(path: Path) -> None:
    """Compare a file with the hash in its own name (`name-57934424.pth`), where there is one."""
    stated = path.stem.rpartition("-")[2]
    if len(stated) != 8 or any(letter not in "0123456789abcdef" for letter in stated):
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(stated):
        raise DataError(
            f"{path} has SHA-256 {found[:8]}…, its name says {stated}; the file is damaged or "
            "incomplete, fetch it again."
        )

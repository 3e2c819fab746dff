"""What the site is made of: the repository's pages, in the repository's own layout.

MkDocs calls these functions (`hooks` in mkdocs.yml). A page may then link to a study's result or to
a source file as it does in the repository, and the link leads there in the site too. An entry of
the navigation may be a pattern; its pages come in the order of the index, docs/README.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
SHOWN = (
    *("*.md", "CITATION.cff", "LICENSE", "docs/**/*.md", "docs/images/*.svg", "docs/images/*.png"),
    *(
        "studies/**/*.md",
        "studies/**/*.toml",
        "studies/**/*.csv",
        "studies/**/*.json",
        "studies/**/*.py",
    ),
    *("studies/**/*.svg", "studies/**/*.png", "benchmarks/*.md", "benchmarks/*.svg"),
    *(
        "examples/*.py",
        "src/fedcord/**/*.py",
        "src/fedcord/**/*.toml",
        "tests/**/*.py",
        "tests/engine/*.json",
    ),
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the navigation."""
    named = [page for entry in config.nav or [] for page in _named(entry)]
    config.nav = [_filled(entry, named) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The repository's files, and of those found by MkDocs only what its theme has brought."""
    own = [file for file in files if file.src_dir != config.docs_dir]
    paths = sorted({path for pattern in SHOWN for path in ROOT.glob(pattern) if path.is_file()})
    shown = [
        File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        for path in paths
    ]
    return Files([*own, *shown])


def _named(entry: Any) -> list[str]:
    """The pages that an entry names one by one."""
    if isinstance(entry, str):
        return [] if "*" in entry else [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in _named(part)]


def _filled(entry: Any, named: list[str]) -> Any:
    """An entry in which patterns are replaced by the pages that are named nowhere else."""
    if isinstance(entry, dict):
        return {title: _filled(value, named) for title, value in entry.items()}
    if isinstance(entry, list):
        return [_filled(value, named) for value in entry]
    if "*" not in entry:
        return entry
    found = [page.relative_to(ROOT).as_posix() for page in sorted(ROOT.glob(entry))]
    return sorted((page for page in found if page not in named), key=_place)


def _place(page: str) -> int:
    """What tells about its neighbours comes first, then pages as the index has them."""
    name = page.rpartition("/")[2]
    if name == "README.md":
        return -1
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    place = index.find(f"({name})")
    return place if place >= 0 else len(index)

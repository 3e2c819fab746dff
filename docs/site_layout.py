"""What the site is made of: the repository's pages, in the repository's own layout.

MkDocs calls these functions (`hooks` in mkdocs.yml). A page may then link to a study's result or to
a source file as it does in the repository, and the link leads there in the site too. Entries of the
navigation that end with `/*` stand for all pages below a folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
SHOWN = (
    *("*.md", "CITATION.cff", "LICENSE", "docs/**/*.md", "docs/images/*.svg", "docs/images/*.png"),
    *("studies/**/*.md", "studies/**/*.toml", "studies/**/*.csv", "studies/**/*.py"),
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
    config.nav = [_filled(entry) for entry in config.nav or []]
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


def _filled(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    return {title: _below(value) for title, value in entry.items()}


def _below(value: Any) -> Any:
    if isinstance(value, list):
        return [_filled(entry) for entry in value]
    if not value.endswith("/*"):
        return value
    pages = sorted((ROOT / value.removesuffix("/*")).rglob("*.md"))
    pages.sort(key=lambda page: page.name != "README.md")  # what tells about the others comes first
    return [page.relative_to(ROOT).as_posix() for page in pages]

"""Check a built site: links lead somewhere, and nobody who reads it is sent to another host.

    python docs/check_site.py site

Ends with exit code 1 and a line for every fault.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED_BY_LINK = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload"}
OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


class Page(HTMLParser):
    """What one page links to, loads by itself, and can be linked to inside it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)
        self.loaded += IN_STYLE.findall(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort an element's addresses."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADED_BY_LINK & set(given.get("rel", "").split()):
            self.loaded.append(given.get("href", ""))
        if "src" in given:
            self.loaded.append(given["src"])
        if "mermaid" in given.get("class", "").split():  # the theme fetches what draws these
            self.loaded.append("//mermaid")


def faults(site: Path) -> list[str]:
    """Everything wrong with the site below a folder, a line for each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site}: no page in it; build it with: make docs"]
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name}: asks for {a}" for a in page.loaded if OUTSIDE.match(a)]
        here = [a for a in [*page.links, *page.loaded] if not _is_elsewhere(a)]
        found += [f"{name}: {a} leads nowhere" for a in here if not _leads(site, path, a, pages)]
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)}: asks for {a}" for a in IN_STYLE.findall(text)]
    return found


def _is_elsewhere(address: str) -> bool:
    return bool(OUTSIDE.match(address)) or urlsplit(address).scheme in ("mailto", "data")


def _leads(site: Path, path: Path, address: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(address)
    there = unquote(parts.path)
    target = path
    if there:
        target = site / there.lstrip("/") if there.startswith("/") else path.parent / there
        target = Path(target.resolve())
    if target.is_dir():
        target /= "index.html"
    if not target.exists() or not target.is_relative_to(site):
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors


def main() -> int:
    """Check the site that the command line names."""
    found = faults(Path(sys.argv[1]).resolve())
    sys.stdout.writelines(f"{fault}\n" for fault in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""How every figure looks, and how it becomes a file or a part of a page.

Figures are made by matplotlib's object interface (no pyplot, no global state) and saved without
dates or random ids, so the same runs give the same bytes. matplotlib is imported only in functions:
it is an optional extra and slow to load.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcord.core.atomic import write_output
from fedcord.core.errors import ConfigError
from fedcord.report.glyphs import drawable
from fedcord.report.marks import tagged_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE = "#1b2530", "#66717d", "#dfe3e8"

VARIABLES = ((INK, "ink"), (MUTED, "muted"), (LINE, "line"), ("#0072b2", "blue"))
"""Colours that differ between a light and a dark page, with their CSS variables."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours for every kind of sight, without black and yellow, which vanish on a dark
or a white page; after six, line styles tell curves apart, and shapes points."""

DASHES = ("-", "--", ":")
POINTS = ("D", "^", "s")

HOUSE_FONT = "DejaVu Sans"

STYLE: dict[Any, object] = {
    "font.family": [HOUSE_FONT],
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollar signs is a name
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "figure.facecolor": "#ffffff",
    "savefig.facecolor": "auto",
    "svg.fonttype": "none",
    "svg.hashsalt": "fedcord",
}


def has_matplotlib() -> bool:
    """Whether figures can be made here."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def house_style() -> Iterator[None]:
    """Our settings for as long as a figure is made or saved; the user's own stay as they are."""
    if not has_matplotlib():
        raise ConfigError(
            'figures need matplotlib, which is not installed; run: pip install "fedcord[plots]"'
        )
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # letters the bundled font lacks still show correctly in SVG; see `drawable` for PNG
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def look(names: Iterable[str], name: str) -> tuple[str, int]:
    """A name's colour, and how many others before it had that colour already.

    By alphabet, not by rank: another seed must not repaint the figures.
    """
    turn, place = divmod(sorted(set(names)).index(name), len(PALETTE))
    return PALETTE[place], turn


def logarithmic(axes: Axes) -> None:
    """A logarithmic y axis with plain numbers, since our style does not read formulas.

    Call it once the data is drawn: an axis that spans no power of ten needs other ticks.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 20 * low:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", which="minor", left=False)


def save_figure(fig: Figure, path: Path) -> None:
    """Write a figure as PNG or SVG, by the suffix of the path."""
    check_suffix(path)
    write_output(path, _rendered(fig, path.suffix.lower()[1:]))


def check_suffix(path: Path) -> None:
    """Refuse a path whose suffix is none that figures have; worth asking before any work."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(
            f"a figure cannot be written to '{path.name}'; allowed endings: .png, .svg."
        )


def inline_svg(fig: Figure, name: str, description: str, key: str | None = None) -> str:
    """The figure as an `<svg>` element for an HTML page.

    Its ink follows the page's CSS variables (so that it works on a dark page), its ids start with
    `key` (so that several figures live on one page), and nothing in it points outside.

    Args:
        fig: the figure.
        name: what it is; figures that take turns at one place share it.
        description: for those who cannot see it.
        key: which one of that name it is; the name itself where there is one.
    """
    key = key or name
    text = _rendered(fig, "svg", is_transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    opening = text[: text.index(">") + 1]
    box = re.search(r'viewBox="0 0 ([0-9.]+) [0-9.]+"', opening)
    assert box is not None
    # one scale for all figures, so that their letters are equally large
    width = f"--own:{1.45 * float(box[1]):.0f}px"
    text = tagged_svg(text[len(opening) :])
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = re.sub(r'xlink:href="#', f'href="#{key}-', text)
    text = re.sub(r'xlink:href="data:', 'href="data:', text)
    text = re.sub(r"url\(#", f"url(#{key}-", text)
    for colour, variable in VARIABLES:
        text = text.replace(colour, f"var(--{variable})")
    text = _compact(text)
    label = html.escape(description)
    kind = f'data-figure="{name}" data-key="{key}"'
    head = f'<svg role="img" aria-label="{label}" {kind} style="{width}" {box[0]}>'
    return head + text.strip()


def _compact(svg: str) -> str:
    """The same picture in fewer bytes: a page has many, and hundredths of a point are enough."""
    svg = re.sub(r'<g id="[^"]*"/>', "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    places = re.compile(r'\b(?:d|x|y)="[^"]*"')
    svg = places.sub(lambda own: re.sub(r"(\.\d\d)\d+|\s+(?=\")|\s*\n", r"\1", own[0]), svg)
    return re.sub(r"\n\s+", "\n", svg)


def _rendered(fig: Figure, kind: str, is_transparent: bool = False) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with house_style(), drawable(fig, HOUSE_FONT) if kind == "png" else nullcontext():
        fig.savefig(buffer, format=kind, dpi=200, metadata=metadata, transparent=is_transparent)
    return buffer.getvalue()

"""The house style of every figure: palette, sheet, intervals, heat maps, the caption, the file.

Labelled directly, intervals shown, safe for colour-blind eyes. matplotlib is imported where something is drawn: it
costs a second of start-up, which a command that only checks its input must not pay.
"""

from __future__ import annotations

import functools
import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, RED, GREY, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A", "#56B4E9"
PURPLE, YELLOW = "#CC79A7", "#F0E442"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY, YELLOW)
INK, FAINT = "#222222", "#D9D9D9"
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": INK,
    "ytick.left": False,
    "xtick.color": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "svg.hashsalt": "gemlab",
    "savefig.dpi": 150,
}
INTERVALS = "95% intervals: Wilson for rates, BCa bootstrap for means"
# Characters of a caption that fit into an inch.
_CAPTION_WIDTH = 16


@contextmanager
def sheet(width: float, height: float) -> Iterator[Figure]:
    """Yield a figure (inches) to draw on in the house style; a notebook shows it as a picture."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        # Not pyplot: figures are values here, nothing keeps them alive or shows them twice.
        yield _chart()(figsize=(width, height), layout="constrained")


@functools.cache
def _chart() -> type[Figure]:
    from matplotlib.figure import Figure

    class Chart(Figure):
        """A figure that a notebook's cell shows without pyplot."""

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            return png(self), {"width": round(100 * self.get_figwidth())}

    return Chart


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG picture."""
    import matplotlib as mpl

    raw = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(raw, format="png")
    return raw.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write the figure as PNG."""
    path.write_bytes(png(figure))


def caption(figure: Figure, subject: Subject, intervals: str = INTERVALS, extra: str = "") -> None:
    """Write below a figure what every one has to say: whose numbers these are, how many, how to read them."""
    width = round(_CAPTION_WIDTH * figure.get_figwidth())
    whole = _filled([*subject.parts, intervals], width)
    lines = [*textwrap.wrap(subject.source.label, width), *whole, *textwrap.wrap(extra, width)]
    figure.supxlabel("\n".join(lines), fontsize=8, color=GREY, x=0.01, ha="left")


def _filled(parts: Sequence[str], width: int) -> list[str]:
    """Join parts into lines, breaking between them where that can be."""
    lines: list[str] = []
    for part in filter(None, parts):
        joined = f"{lines[-1]} · {part}" if lines else part
        if lines and len(joined) <= width:
            lines[-1] = joined
        else:
            lines += textwrap.wrap(part, width)
    return lines


# --- axes ---------------------------------------------------------------------------------------------------


def percent(axis: Axis, decimals: int | None = None) -> None:
    """Label an axis of shares in percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1, decimals=decimals))


def grid(axes: Axes, axis: str = "x") -> None:
    """Draw faint lines behind the values."""
    axes.grid(axis=axis, color=FAINT, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def rows(axes: Axes, names: Sequence[str]) -> None:
    """Make one row of each name, the first on top."""
    axes.set_ylim(max(len(names), 1) - 0.4, -0.7)
    axes.set_yticks(range(len(names)), names)


def interval(axes: Axes, y: float, value: float | None, ci: Sequence[Any], colour: str, label: str = "") -> None:
    """Draw a value as a dot on its interval in row y, its label above; nothing where there is no value."""
    if value is None or math.isnan(value):
        return
    if not any(v is None or math.isnan(v) for v in ci):
        axes.plot(list(ci), [y, y], color=colour, linewidth=2, solid_capstyle="round")
    axes.plot([value], [y], "o", color=colour, markersize=6.5)
    if label:
        axes.annotate(label, (value, y), (0, 8), textcoords="offset points", ha="center", color=INK)


def blank(axes: Axes, text: str) -> None:
    """Say in words why there is nothing to see."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=GREY)
    axes.set_xticks([])
    axes.set_yticks([])


def legend(figure: Figure, colours: dict[str, str], place: Any = "outside lower center") -> None:
    """Name colours outside of the axes; `place` as matplotlib's."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, marker="o", label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc=place, ncols=max(len(handles), 1), frameon=False)


# --- heat maps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A field of a heat map: how dark it is (0 to 1, None: no value), its text, small text below, a frame."""

    shade: float | None
    text: str
    small: str = ""
    framed: bool = False


def heat(axes: Axes, cells: Sequence[Sequence[Cell]], colour: str) -> None:
    """Draw rows of cells, the first on top, from white to the colour; rows may differ in length."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    shades = LinearSegmentedColormap.from_list(colour, ["white", colour])
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            shade = 0.0 if cell.shade is None or math.isnan(cell.shade) else min(max(cell.shade, 0.0), 1.0)
            fill = shades(shade)
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=fill, edgecolor=FAINT))
            ink = _ink(fill)
            axes.text(x, y - 0.06 * bool(cell.small), cell.text, ha="center", va="center", color=ink, fontsize=9)
            if cell.small:
                axes.text(x, y + 0.29, cell.small, ha="center", va="center", color=ink, fontsize=6.5)
            if cell.framed:
                corner = (x - 0.48, y - 0.46)
                axes.add_patch(Rectangle(corner, 0.96, 0.92, fill=False, edgecolor=INK, linewidth=1.8))
    columns = max((len(row) for row in cells), default=1)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(max(len(cells), 1) - 0.5, -0.5))
    axes.tick_params(length=0)
    axes.spines["bottom"].set_visible(False)


def _ink(fill: Sequence[float]) -> str:
    """Return the colour of text that can be read on a fill."""
    luminance = 0.3 * fill[0] + 0.59 * fill[1] + 0.11 * fill[2]
    return "white" if luminance < 0.55 else INK

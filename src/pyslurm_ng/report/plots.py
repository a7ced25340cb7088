"""Plots as pieces of SVG, by matplotlib: without addresses, in the colours of the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_INK, _FIRST, _SECOND, _LINE = "#010203", "#010204", "#010205", "#010206"
COLOURS = {
    _INK: "currentColor",
    _FIRST: "var(--first)",
    _SECOND: "var(--second)",
    _LINE: "var(--line)",
}
"""Placeholders for the colours of the page, which has others in the dark."""
_MOST_CHARACTERS = 24
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


class Plots:
    """Draws the kinds of plots of the page; each has a title that is read out."""

    def over_time(
        self, title: str, labels: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]
    ) -> str:
        """Return bars of percent for each piece of time, one row above the other."""

        def draw(axes: Axes) -> None:
            below = [0.0] * len(labels)
            for (name, parts), colour in zip(rows, (_FIRST, _SECOND), strict=False):
                heights = [100 * part for part in parts]
                axes.bar(range(len(labels)), heights, bottom=below, color=colour, label=name)
                below = [low + high for low, high in zip(below, heights, strict=True)]
            axes.set_ylim(0, 100)
            axes.set_ylabel("percent")
            every = -(-len(labels) // 12) or 1
            axes.set_xticks(
                range(0, len(labels), every), labels=labels[::every], rotation=45, ha="right"
            )
            axes.legend(loc="upper left", ncols=2, bbox_to_anchor=(0, 1.15))

        return self._figure(title, draw, 2.8)

    def bars(
        self,
        title: str,
        names: Sequence[str],
        rows: Sequence[tuple[str, Sequence[float]]],
        unit: str,
    ) -> str:
        """Return bars beside names, from above; of one or two figures each."""

        def draw(axes: Axes) -> None:
            high = 0.8 / len(rows)
            for number, ((name, values), colour) in enumerate(
                zip(rows, (_FIRST, _SECOND), strict=False)
            ):
                places = [at + (number - (len(rows) - 1) / 2) * high for at in range(len(names))]
                axes.barh(places, values, height=high, color=colour, label=name)
            axes.invert_yaxis()
            axes.set_yticks(range(len(names)))
            # Names of users are not formulas.
            axes.set_yticklabels([_short(name) for name in names], parse_math=False)
            axes.set_xlabel(unit)
            if len(rows) > 1:
                axes.legend(loc="lower right")

        return self._figure(title, draw, 0.9 + 0.27 * max(len(names), 2) * (1 + 0.3 * len(rows)))

    def _figure(self, title: str, draw: Callable[[Axes], None], height: float) -> str:
        with mpl.rc_context(_STYLE), warnings.catch_warnings():
            # The reader's font draws glyphs that matplotlib's own font does not have.
            warnings.simplefilter("ignore")
            figure = Figure(figsize=(7.6, height), layout="constrained")
            figure.patch.set_alpha(0)
            axes = figure.add_subplot()
            axes.patch.set_alpha(0)
            draw(axes)
            file = io.StringIO()
            nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
            FigureCanvasSVG(figure).print_svg(file, metadata=nothing)
        return _inline(file.getvalue(), title)


def _short(name: str) -> str:
    text = "".join(char if char.isprintable() else "?" for char in name)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _inline(document: str, title: str) -> str:
    """Return the element of an SVG file for a page, without names that other plots have, too."""
    text = document[document.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    own = re.sub(r"\W+", "-", title)

    def renamed(match: re.Match[str]) -> str:
        return f' id="{own}-{match[1]}"' if match[1] in used else ""

    text = re.sub(r' id="([^"]*)"', renamed, text)
    text = re.sub(r"(url\(#|href=\"#)", lambda match: f"{match[1]}{own}-", text)
    for colour, word in COLOURS.items():
        text = text.replace(colour, word)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)

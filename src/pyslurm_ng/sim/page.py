"""One page of HTML with plots and tables; it needs nothing but itself."""

from __future__ import annotations

from html import escape
from math import log

from pyslurm_ng.base.units import plural
from pyslurm_ng.sim.comparison import Comparison, Row

_WIDE, _HIGH, _LEFT, _LOW = 760, 220, 56, 28
_MOST_BARS = 25
_STYLE = """
:root{color-scheme:light dark;--was:#8a8f98;--now:#2563eb;--line:#d4d7dd;
--good:#15803d;--bad:#b91c1c}
body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:2rem 0 .4rem}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:currentColor}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
th,td{padding:.25rem .35rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}caption{text-align:left;color:var(--was)}
.key span{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .3em 0 1em}
.good{color:var(--good)}.bad{color:var(--bad)}summary{cursor:pointer}
@media(prefers-color-scheme:dark){:root{--now:#7aa7ff;--line:#3a3f47;--good:#4ade80;--bad:#f87171}}
"""
_KEY = (
    '<p class="key"><span style="background:var(--was)"></span>recorded'
    '<span style="background:var(--now)"></span>simulated</p>'
)


def page(comparison: Comparison, title: str) -> str:
    """Return the report as one HTML document."""
    total = comparison.total
    parts = [
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)}</title>",
        "<meta name=viewport content='width=device-width'>",
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
        f"<p>{plural(total.recorded.jobs, 'job')}. Mean wait "
        f"{duration(total.recorded.mean_wait_s)} as recorded, "
        f"{duration(total.simulated.mean_wait_s)} simulated; utilisation "
        f"{comparison.mean_utilisation[0]:.1%} and {comparison.mean_utilisation[1]:.1%}.</p>",
        _KEY,
        "<h2>Utilisation over time</h2>",
        _utilisation(comparison),
        "<h2>Mean wait per user</h2>",
        _bars(comparison.users),
        "<h2>How many jobs waited at most so long</h2>",
        _distribution(comparison),
        _table("Users, largest gain first", comparison.users),
        _table("Accounts", comparison.accounts),
        _table("Partitions", comparison.partitions),
    ]
    if comparison.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
        parts.append(f"<h2>What is not in it</h2><ul>{notes}</ul>")
    return "\n".join([*parts, "</body></html>\n"])


def duration(seconds: float) -> str:
    """Return a time as people say it: 42 s, 5.1 min, 25 min, 3.2 h, 4.1 d."""
    size = abs(seconds)
    if size < 120:
        return f"{seconds:.0f} s"
    if size < 600:
        return f"{seconds / 60:.1f} min"
    if size < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if size < 172_800 else f"{seconds / 86_400:.1f} d"


def _frame(label: str, inside: str, high: int = _HIGH) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDE} {high}" role="img" aria-label="{escape(label)}">{inside}</svg>'
    )


def _line(points: list[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="var(--{colour})" stroke-width="1.6"/>'


def _percent_axis() -> str:
    lines = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = _y(part)
        lines.append(
            f'<line x1="{_LEFT}" x2="{_WIDE}" y1="{y}" y2="{y}" stroke="var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{part:.0%}</text>'
        )
    return "".join(lines)


def _y(part: float) -> float:
    return _HIGH - _LOW - min(part, 1) * (_HIGH - _LOW - 10)


def _below(x: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.0f}" y="{_HIGH - 8}" text-anchor="{anchor}">{escape(text)}</text>'


def _anchor(x: float) -> str:
    """Return how a label stands at its place, so that those at the edges are not cut."""
    return "start" if x <= _LEFT else "end" if x > _WIDE - 30 else "middle"


def _utilisation(comparison: Comparison) -> str:
    values = comparison.utilisation
    if not values:
        return "<p>Nothing ran.</p>"
    step = (_WIDE - _LEFT) / max(len(values) - 1, 1)
    inside = _percent_axis()
    for column, colour in ((1, "was"), (2, "now")):
        inside += _line(
            [(_LEFT + i * step, _y(point[column])) for i, point in enumerate(values)], colour
        )
    whole_s = (values[-1][0] - values[0][0]) / 1e6
    for part in (0, 0.25, 0.5, 0.75, 1):
        place_x = _LEFT + part * (_WIDE - _LEFT)
        inside += _below(place_x, duration(part * whole_s), _anchor(place_x))
    return _frame("Utilisation over time, recorded and simulated", inside)


def _bars(rows: list[Row]) -> str:
    busiest = sorted(rows, key=lambda row: -row.recorded.core_hours)[:_MOST_BARS]
    if not busiest:
        return "<p>No jobs.</p>"
    shown = sorted(busiest, key=lambda row: -row.gain_s)
    longest = max(max(row.recorded.mean_wait_s, row.simulated.mean_wait_s) for row in shown) or 1
    inside, left_x, room = "", 110, _WIDE - 110 - 70
    for index, row in enumerate(shown):
        y = index * 26
        inside += (
            f'<text x="{left_x - 8}" y="{y + 15}" text-anchor="end">{escape(row.name[:16])}</text>'
        )
        for more, figures, colour in ((2, row.recorded, "was"), (12, row.simulated, "now")):
            size = figures.mean_wait_s / longest * room
            inside += (
                f'<rect x="{left_x}" y="{y + more}" width="{size:.1f}" height="9" rx="1" '
                f'fill="var(--{colour})"/><text x="{left_x + size + 5:.1f}" y="{y + more + 9}">'
                f"{duration(figures.mean_wait_s)}</text>"
            )
    return _frame("Mean wait per user, recorded and simulated", inside, len(shown) * 26 + 4)


def _distribution(comparison: Comparison) -> str:
    """Plot parts of the jobs over waits; the axis is logarithmic, for waits are."""
    marks = [1, 10, 60, 600, 3600, 36_000, 86_400, 864_000]
    longest = max([60.0, *comparison.waits_s[0][-1:], *comparison.waits_s[1][-1:]])
    marks = [mark for mark in marks if mark <= longest]

    def x(wait_s: float) -> float:
        return _LEFT + log(1 + wait_s) / log(1 + longest) * (_WIDE - _LEFT - 10)

    inside = _percent_axis() + "".join(
        _below(x(mark), duration(mark), _anchor(x(mark))) for mark in marks
    )
    for waits, colour in zip(comparison.waits_s, ("was", "now"), strict=True):
        count = len(waits)
        stride = max(1, count // 400)
        points = [(x(waits[i]), _y((i + 1) / count)) for i in range(0, count, stride)]
        if points:
            points.append((x(waits[-1]), _y(1)))
            inside += _line(points, colour)
    return _frame("Distribution of waits, recorded and simulated", inside)


def _table(caption: str, rows: list[Row]) -> str:
    head = (
        "<tr><th scope=col>Name<th scope=col>Jobs<th scope=col>Core hours"
        "<th scope=col>Mean wait<th scope=col>simulated<th scope=col>Median<th scope=col>simulated"
        "<th scope=col>Longest<th scope=col>simulated<th scope=col>Slowdown<th scope=col>simulated"
        "<th scope=col>Gain</tr>"
    )
    lines = []
    for row in rows:
        was, now = row.recorded, row.simulated
        kind = "good" if row.gain_s > 0.5 else "bad" if row.gain_s < -0.5 else ""
        sign = "+" if row.gain_s > 0.5 else ""
        cells = [
            str(was.jobs),
            f"{was.core_hours:.1f}",
            *(duration(x) for x in (was.mean_wait_s, now.mean_wait_s)),
            *(duration(x) for x in (was.median_wait_s, now.median_wait_s)),
            *(duration(x) for x in (was.max_wait_s, now.max_wait_s)),
            f"{was.mean_bounded_slowdown:.1f}",
            f"{now.mean_bounded_slowdown:.1f}",
        ]
        text = "".join(f"<td>{cell}" for cell in cells)
        gain = f'<td class="{kind}">{sign}{duration(row.gain_s)}'
        lines.append(f"<tr><td>{escape(row.name)}{text}{gain}</tr>")
    return f"<h2>{escape(caption)}</h2><div class=wide><table>{head}{''.join(lines)}</table></div>"

"""The page of a report: each plot has its figures as a table below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from time import localtime, strftime
from typing import Protocol

from pyslurm_ng.report.sums import HOUR_S, Report, Used

_MOST_BARS = 20
_STYLE = """
:root{color-scheme:light dark;--first:#2563eb;--second:#d97706;--line:#d4d7dd;--soft:#5b616b}
body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.2rem;margin:2.2rem 0 .4rem}
figure{margin:0}svg{width:100%;height:auto}svg text{font-family:system-ui,sans-serif!important}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;max-height:30rem;overflow-y:auto}
th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}caption{text-align:left;color:var(--soft)}
dl{display:grid;grid-template-columns:max-content auto;gap:.1rem 1rem}dd{margin:0}
@media(prefers-color-scheme:dark){:root{--first:#7aa7ff;--second:#fbbf24;--line:#3a3f47;
--soft:#a8afba}}
@media print{.wide{max-height:none}}
"""


class Drawing(Protocol):
    """What draws the plots."""

    def over_time(
        self, title: str, labels: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]
    ) -> str: ...

    def bars(
        self,
        title: str,
        names: Sequence[str],
        rows: Sequence[tuple[str, Sequence[float]]],
        unit: str,
    ) -> str: ...


def page(report: Report, plots: Drawing) -> str:
    """Return the whole document."""
    begin, end = (_date(moment) for moment in (report.span.start_s, report.span.end_s))
    title = f"{report.cluster}: {begin} to {end}"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title>",
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
        _summary(report),
        *_utilisation(report, plots),
        *_waits(report, plots),
        *_shares(report, plots),
        *_efficiency(report, plots),
        *_gpus(report, plots),
    ]
    return "\n".join([*parts, "</body></html>\n"])


def _summary(report: Report) -> str:
    figures = [
        ("Jobs that ended", f"{report.job_count:,}"),
        *((f"of these {state}", f"{count:,}") for state, count in sorted(report.states.items())),
        ("Utilisation", f"{report.allocated:.1%}"),
        ("Wait, median", _duration(report.wait_s(0.5))),
        ("Wait, 95 of 100 jobs at most", _duration(report.wait_s(0.95))),
        ("GPU hours", f"{report.gpu_hours:,.1f}"),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in figures)
    return f"<dl>{rows}</dl>"


def _utilisation(report: Report, plots: Drawing) -> list[str]:
    labels = [_date(day.span.start_s) for day in report.days]
    rows = [
        ("allocated", [day.allocated for day in report.days]),
        ("down", [day.down for day in report.days]),
    ]
    cells = [
        (
            _date(day.span.start_s),
            f"{day.allocated:.1%}",
            f"{day.down:.1%}",
            f"{day.gpu_hours:,.1f}",
        )
        for day in report.days
    ]
    title = "Utilisation of processors"
    heads = ("from", "allocated", "down", "GPU hours")
    return _section(title, plots.over_time(title, labels, rows), heads, cells)


def _waits(report: Report, plots: Drawing) -> list[str]:
    classes = report.wait_classes()
    title = "How long jobs waited"
    drawn = plots.bars(
        title, [name for name, _ in classes], [("jobs", [count for _, count in classes])], "jobs"
    )
    total = sum(count for _, count in classes) or 1
    cells = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in classes]
    return _section(title, drawn, ("at most", "jobs", "part"), cells)


def _shares(report: Report, plots: Drawing) -> list[str]:
    total = report.accounts["root"].cpu_s if "root" in report.accounts else 0
    total = total or sum(used.cpu_s for used in report.users.values())
    rows = [
        (name, report.shares[name], report.account(name).cpu_s / total if total else 0.0)
        for name in report.shares
        if name != "root"
    ]
    rows.sort(key=lambda row: (-row[2], row[0]))
    shown = rows[:_MOST_BARS]
    title = "Shares of accounts, and what they used"
    drawn = plots.bars(
        title,
        [name for name, _, _ in shown],
        [
            ("share", [100 * share for _, share, _ in shown]),
            ("used", [100 * part for _, _, part in shown]),
        ],
        "percent of the cluster",
    )
    cells = [(name, f"{share:.1%}", f"{part:.1%}") for name, share, part in rows]
    return _section(title, drawn, ("account", "share", "part of the use"), cells)


def _efficiency(report: Report, plots: Drawing) -> list[str]:
    rows = _by_use(report.users.items(), lambda used: used.core_s)
    shown = [(name, used.efficiency or 0.0) for name, used in rows[:_MOST_BARS]]
    title = "Processor efficiency by user, largest use first"
    drawn = plots.bars(
        title,
        [name for name, _ in shown],
        [("efficiency", [100 * part for _, part in shown])],
        "percent of the processor time of jobs that ended",
    )
    cells = [
        (name, f"{used.jobs:,}", _hours(used.core_s), f"{used.efficiency or 0.0:.1%}")
        for name, used in rows
    ]
    return _section(title, drawn, ("user", "jobs", "core hours", "efficiency"), cells)


def _gpus(report: Report, plots: Drawing) -> list[str]:
    rows = _by_use(report.users.items(), lambda used: used.gpu_s)
    title = "GPU hours by user"
    if not rows:
        return [f"<h2>{title}</h2><p>No GPU was allocated.</p>"]
    shown = rows[:_MOST_BARS]
    drawn = plots.bars(
        title,
        [name for name, _ in shown],
        [("GPU hours", [used.gpu_s / HOUR_S for _, used in shown])],
        "hours",
    )
    return _section(title, drawn, ("user", "GPU hours"), [(n, _hours(u.gpu_s)) for n, u in rows])


def _by_use(
    items: Iterable[tuple[str, Used]], key: Callable[[Used], int]
) -> list[tuple[str, Used]]:
    """Return the owners that used anything, the largest use first."""
    used_items = [(name, used) for name, used in items if key(used)]
    return sorted(used_items, key=lambda row: (-key(row[1]), row[0]))


def _section(
    title: str, drawn: str, heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> list[str]:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in rest)
        body.append(f'<tr><th scope="row">{escape(_printable(first))}</th>{cells}</tr>')
    return [
        f"<section><h2>{escape(title)}</h2><figure>{drawn}</figure>",
        f'<div class="wide" tabindex="0"><table><caption>{escape(title)}</caption>',
        f"<thead><tr>{head}</tr></thead><tbody>",
        *body,
        "</tbody></table></div></section>",
    ]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _date(moment_s: int) -> str:
    return strftime("%Y-%m-%d", localtime(moment_s))


def _hours(seconds: int) -> str:
    return f"{seconds / HOUR_S:,.1f}"


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock

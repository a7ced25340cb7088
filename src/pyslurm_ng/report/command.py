"""`pyslurm-ng report`: ask slurmdbd, add up, write one HTML file."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import click

from pyslurm_ng.base.dates import DateError, parse_date
from pyslurm_ng.conf.quick import find_conf, quick
from pyslurm_ng.report.answers import Answers, NotAnsweredError
from pyslurm_ng.report.page import page
from pyslurm_ng.report.sums import Report, Span
from pyslurm_ng.wire.client import QUICK_KEYS, Client

EXTRA = "pip install 'pyslurm-ng[report]'"


@click.command()
@click.option("--start", metavar="TIME", default="", show_default="begin of last month",
              help="Begin of the report, as with sreport: 2026-11-01, now-7days ...")  # fmt: skip
@click.option("--end", metavar="TIME", default="", show_default="begin of this month",
              help="End of the report.")  # fmt: skip
@click.option("--cluster", metavar="NAME", default="", show_default="that of slurm.conf",
              help="A cluster that slurmdbd knows.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True,
              help="HTML file to write; it needs no other file.")  # fmt: skip
def report(start: str, end: str, cluster: str, output: Path) -> None:
    """Write what a cluster did in a month as one HTML page: plots, with tables beside them."""
    try:
        from pyslurm_ng.report.plots import Plots
    except ImportError as problem:
        raise click.ClickException(
            f"plots need {problem.name}, which is missing: {EXTRA}"
        ) from None
    span = _span(start, end, int(time.time()))
    try:
        conf = quick(find_conf(), (*QUICK_KEYS, "AccountingStorageType"))
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from None
    if not conf.get("AccountingStorageType", "").endswith("slurmdbd"):
        raise click.ClickException("AccountingStorageType is not accounting_storage/slurmdbd")
    name = (cluster or conf.get("ClusterName", "cluster")).lower()
    client = Client(conf, "slurmdbd", wait_s=0.5)
    try:
        made = Report(name, span)
        Answers(client, made).read()
    except NotAnsweredError as problem:
        raise click.ClickException(str(problem)) from None
    finally:
        client.close()
    _write(output, page(made, Plots()))
    print(f"{output}: {made.job_count} jobs of {name}", file=sys.stderr)


def _span(start: str, end: str, now_s: int) -> Span:
    """Return the time to report; without options the calendar month before this one."""
    this_month = datetime.fromtimestamp(now_s).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    last = this_month.month == 1
    last_month = this_month.replace(
        year=this_month.year - last, month=12 if last else this_month.month - 1
    )
    moments = []
    for option, text, usual in (("--start", start, last_month), ("--end", end, this_month)):
        try:
            moment_s = parse_date(text, now_s, past=True) if text else int(usual.timestamp())
        except DateError as problem:
            raise click.ClickException(f"{option} {text}: {problem}") from None
        moments.append(moment_s)
    if start and not end:
        moments[1] = now_s
    if moments[0] >= moments[1] or moments[0] < 0:
        raise click.ClickException("--start must be before --end")
    return Span(*moments)


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole; only its owner reads it, since it may name what is private.

    The folder may be one where others write, too, so the new file has a name that nobody guesses.
    """
    try:
        descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except OSError as problem:
        raise click.ClickException(f"{path}: {problem.strerror}") from None
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as problem:
        os.unlink(fresh)
        raise click.ClickException(f"{path}: {problem.strerror}") from None

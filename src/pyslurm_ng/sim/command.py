"""`pyslurm-ng sim`: run a recorded workload through the scheduler and say how its users fared."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from pathlib import Path

import click

from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.check import topologies_of
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import SlurmConf, changed_slurm_conf, read_lines
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.configuration import BadConfiguration, load_configuration
from pyslurm_ng.journal.segment import JournalDamage, JournalError
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.comparison import compare
from pyslurm_ng.sim.journal_run import JournalRun
from pyslurm_ng.sim.page import duration, page
from pyslurm_ng.sim.recorded import read_recording
from pyslurm_ng.sim.trace_run import TRACE_CONF, Outcome, TraceRun, trace_conf, trace_lines
from pyslurm_ng.sim.workload import Trace, read_swf

# Lines that describe a machine; the simulated one is as large as --procs says.
_MACHINE = ("nodename", "partitionname", "nodeset", "downnodes", "poweraction")
_IDENTITY = ("clustername", "slurmctldhost", "authtype", "credtype")


@click.command()
@click.option(
    "--trace",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="Workload in the Standard Workload Format, plain or gzipped.",
)
@click.option(
    "--procs",
    "processors",
    type=click.IntRange(1, 1_000_000),
    help="Processors of the machine; each is a node of one core.",
)
@click.option(
    "--journal",
    "journal_path",
    type=click.Path(exists=True, path_type=Path),
    help="StateSaveLocation of a real cluster, or a journal file: replay what it recorded.",
)
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --journal: write plots and tables into this file.",
)
@click.option(
    "--conf",
    "conf_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="slurm.conf: all of it with --journal, only its scheduling parameters with --trace.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A slurm.conf parameter; takes precedence over --conf. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sim(
    path: str | None,
    processors: int | None,
    journal_path: Path | None,
    html_path: Path | None,
    conf_path: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Simulate a machine with a recorded workload under the real scheduler."""
    if journal_path is not None:
        if path is not None or processors is not None:
            raise click.UsageError("--journal and --trace exclude each other; --procs is a trace's")
        if conf_path is None:
            raise click.UsageError("--journal needs --conf: the slurm.conf to replay it with")
        _journal(journal_path, conf_path, settings, html_path, as_json)
        return
    if path is None or processors is None:
        raise click.UsageError("give --trace FILE and --procs N, or --journal DIR and --conf FILE")
    if html_path is not None:
        raise click.UsageError("--html needs --journal")
    _trace(path, processors, conf_path, settings, as_json)


def _trace(
    path: str,
    processors: int,
    conf_path: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    conf = _trace_conf(processors, _settings(conf_path, settings))
    trace = _read(path)
    for complaint in trace.complaints(path):
        click.echo(f"pyslurm-ng: sim: {complaint}", err=True)
    jobs = [job for job in trace.jobs if job.processors <= processors]
    if trace.skipped:
        text = f"{path}: {plural(trace.skipped, 'job')} never ran; left out"
        click.echo(f"pyslurm-ng: sim: {text}", err=True)
    if len(jobs) < len(trace.jobs):
        wide = len(trace.jobs) - len(jobs)
        what = "job wants" if wide == 1 else "jobs want"
        text = f"{path}: {wide} {what} more than {processors} processors; left out"
        click.echo(f"pyslurm-ng: sim: {text}", err=True)
    if not jobs:
        what = f"can run on {processors} processors" if trace.jobs else "has run"
        raise click.ClickException(f"{path}: no job in it {what}")
    outcome = TraceRun(jobs, conf, Planner()).run()
    _print(outcome, as_json)


def _trace_conf(processors: int, settings: dict[str, str]) -> SlurmConf:
    """Return the configuration of a trace's machine; oddities are named with their place."""
    texts = list(settings)
    first = len(trace_lines(processors, texts)) - len(texts) + 1

    def placed(problem: str) -> str:
        name, number, rest = problem.removeprefix(f"{TRACE_CONF}:").partition(":")
        at = int(name) - first if name.isdecimal() else -1
        return f"{settings[texts[at]]}{number}{rest}" if 0 <= at < len(texts) else problem

    try:
        conf = trace_conf(processors, texts)
    except ConfErrors as problem:
        text = "\n".join(placed(str(error)) for error in problem.errors)
        raise click.ClickException(text) from None
    for warning in conf.warnings:
        click.echo(f"pyslurm-ng: sim: {placed(warning)}", err=True)
    return conf


def _journal(
    path: Path,
    conf_path: Path,
    settings: tuple[str, ...],
    html_path: Path | None,
    as_json: bool,
) -> None:
    """Replay a journal and say which users gain and which lose."""
    if html_path is not None and not os.access(html_path.parent, os.W_OK):
        raise click.ClickException(f"{html_path}: its directory cannot be written to")
    conf, topologies = _configuration(conf_path, settings)
    try:
        recording = read_recording(path)
    except JournalDamage as damage:
        raise click.ClickException(damage.problem) from None
    except (JournalError, OSError) as problem:
        raise click.ClickException(str(problem)) from None
    run = JournalRun(recording, conf, Planner(), topologies)
    run.run()
    comparison = compare(run)
    for note in comparison.notes:
        click.echo(f"pyslurm-ng: sim: {note}", err=True)
    if html_path is not None:
        try:
            html_path.write_text(page(comparison, f"{conf.cluster_name} with {conf_path.name}"))
        except OSError as problem:
            raise click.ClickException(f"{html_path}: {problem.strerror}") from None
    if as_json:
        json.dump(comparison.as_dict(), sys.stdout)
        sys.stdout.write("\n")
        return
    click.echo(f"{'':<20}{'jobs':>8}{'core-h':>10}{'wait':>10}{'simulated':>11}{'gain':>10}")
    for row in (comparison.total, *comparison.users):
        was, now = duration(row.recorded.mean_wait_s), duration(row.simulated.mean_wait_s)
        click.echo(
            f"{row.name[:19]:<20}{row.recorded.jobs:>8}{row.recorded.core_hours:>10.1f}"
            f"{was:>10}{now:>11}{duration(row.gain_s):>10}"
        )
    before, after = comparison.mean_utilisation
    click.echo(f"utilisation {before:.1%} recorded, {after:.1%} simulated")


def _configuration(
    path: Path, settings: tuple[str, ...]
) -> tuple[SlurmConf, tuple[TopologyConf, ...]]:
    """Return slurm.conf with settings in place of its own, and the network beside it."""
    try:
        if not settings:
            configuration = load_configuration(str(path.absolute()))
            return configuration.conf, configuration.topologies
        conf = changed_slurm_conf(str(path), [_checked(setting) for setting in settings], "--set")
        return conf, topologies_of(conf, str(path.absolute().parent))
    except (BadConfiguration, ConfErrors) as problem:
        lines = getattr(problem, "lines", None) or [str(problem)]
        raise click.ClickException("\n".join(lines)) from None


def _checked(setting: str) -> str:
    key, equals, _ = setting.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--set")
    return setting


def _settings(conf_path: Path | None, settings: tuple[str, ...]) -> dict[str, str]:
    """Return configuration lines, each with where it was written.

    Of a key given more than once the last counts.
    """
    lines: dict[str, tuple[str, str]] = {}
    text = read_lines(str(conf_path)) if conf_path is not None else None
    if text is not None and text.errors:
        raise click.ClickException("\n".join(map(str, text.errors)))
    for entries in text.lines if text is not None else ():
        if entries[0].key.lower() in _MACHINE:
            continue
        for key, value, file, number in entries:
            if key.lower() not in _IDENTITY:
                lines[key.lower()] = f'{key}="{value}"', f"{file}:{number}"
    for setting in settings:
        key = _checked(setting).partition("=")[0]
        if key.strip().lower() in _MACHINE:
            problem = f"{key.strip()}: the machine follows from --procs"
            raise click.BadParameter(problem, param_hint="--set")
        lines[key.strip().lower()] = setting, "--set"
    return dict(lines.values())


def _read(path: str) -> Trace:
    try:
        return read_swf(path)
    except (OSError, EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise click.ClickException(f"{path}: {problem}") from None


def _print(outcome: Outcome, as_json: bool) -> None:
    measures = outcome.as_dict()
    if as_json:
        json.dump(measures, sys.stdout)
        sys.stdout.write("\n")
        return
    for name, value in measures.items():
        shown = f"{value:.4f}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<24} {shown}")

"""`pyslurm-ng sim`: run a recorded workload through the scheduler and say how its users fared."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path

import click

from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.sched.backfill import Planner
from pyslurm_ng.sim.trace_run import Outcome, TraceRun, trace_conf
from pyslurm_ng.sim.workload import Trace, read_swf

# Lines that describe a machine; the simulated one is as large as --procs says.
_MACHINE = ("nodename", "partitionname", "nodeset", "downnodes", "include")
_IDENTITY = ("clustername", "slurmctldhost", "authtype", "credtype")


@click.command()
@click.option(
    "--trace",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Workload in the Standard Workload Format, plain or gzipped.",
)
@click.option(
    "--procs",
    "processors",
    required=True,
    type=click.IntRange(1, 1_000_000),
    help="Processors of the machine; each is a node of one core.",
)
@click.option(
    "--conf",
    "conf_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="slurm.conf whose scheduling parameters to use; its nodes and partitions are not.",
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
    path: str,
    processors: int,
    conf_path: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Simulate a machine with a recorded workload under the real scheduler."""
    lines = _settings(conf_path, settings)
    try:
        conf = trace_conf(processors, lines)
    except ConfErrors as problem:
        raise click.ClickException(str(problem)) from None
    trace = _read(path)
    for complaint in trace.complaints(path):
        click.echo(f"pyslurm-ng: sim: {complaint}", err=True)
    jobs = [job for job in trace.jobs if job.processors <= processors]
    if trace.skipped:
        click.echo(f"pyslurm-ng: sim: {path}: {trace.skipped} jobs never ran; left out", err=True)
    if len(jobs) < len(trace.jobs):
        wide = len(trace.jobs) - len(jobs)
        text = f"{path}: {wide} jobs want more than {processors} processors; left out"
        click.echo(f"pyslurm-ng: sim: {text}", err=True)
    if not jobs:
        raise click.ClickException(f"{path}: no job in it can run on {processors} processors")
    outcome = TraceRun(jobs, conf, Planner()).run()
    _print(outcome, as_json)


def _settings(conf_path: Path | None, settings: tuple[str, ...]) -> list[str]:
    """Return configuration lines; of a key given more than once the last counts."""
    lines: dict[str, str] = {}
    if conf_path is not None:
        text = conf_path.read_text(errors="replace").replace("\\\n", " ")
        for raw in text.splitlines():
            line = raw.partition("#")[0].strip()
            key = line.partition("=")[0].strip().lower()
            if line and key.split()[0] not in _MACHINE + _IDENTITY:
                lines[key] = line
    for setting in settings:
        key, equals, _ = setting.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--set")
        if key.strip().lower() in _MACHINE:
            raise click.BadParameter(f"{key.strip()}: the machine follows from --procs")
        lines[key.strip().lower()] = setting
    return list(lines.values())


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

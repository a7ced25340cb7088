"""The manual pages of daemons and of `pyslurm-ng`, with their own lists of options."""

from __future__ import annotations

import click
from roff import Page

from pyslurm_ng import __version__
from pyslurm_ng.ctld import __main__ as slurmctld
from pyslurm_ng.d import __main__ as slurmd
from pyslurm_ng.dbd import options as slurmdbd
from pyslurm_ng.up.__main__ import commands

USAGES = {"slurmctld": slurmctld.USAGE, "slurmd": slurmd.USAGE, "slurmdbd": slurmdbd.USAGE}
# name -> summary, paragraphs
DAEMONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "slurmctld": (
        "the controller",
        (
            "Keeps the cluster's state, schedules jobs, and answers commands. It goes to the "
            "background and returns to the shell once it can be talked to; an error in the "
            "configuration ends it with file, line and what is allowed.",
            "Every change is in a journal in StateSaveLocation, synced, before anybody hears of "
            "it. SIGTERM ends it in an orderly way, SIGHUP reads the configuration again.",
        ),
    ),
    "slurmd": (
        "the node daemon",
        (
            "Runs on each node: registers it, launches and ends jobs. Each job step has a "
            "supervisor of its own that survives a restart of slurmd.",
        ),
    ),
    "slurmdbd": (
        "the accounting daemon",
        (
            "Turns the controller's journal into rows of a database, each batch with its place in "
            "the journal in one transaction: stopped for hours, it goes on where it was.",
        ),
    ),
}


def options_of(usage: str) -> list[tuple[str, str]]:
    """Return the options in a text that `--help` prints: how they are given, what they do."""
    found = []
    for line in usage.splitlines()[1:]:
        tag, _, text = line.strip().partition("  ")
        found.append((tag, text.strip()))
    return found


def daemon_page(name: str) -> Page:
    """Return the page of a daemon."""
    summary, paragraphs = DAEMONS[name]
    page = Page(name, 8, __version__, summary)
    page.heading("SYNOPSIS")
    page.synopsis(name, "[options]")
    page.heading("DESCRIPTION")
    for paragraph in paragraphs:
        page.paragraph(paragraph)
    page.heading("OPTIONS")
    for tag, text in options_of(USAGES[name]):
        page.item(tag, text)
    page.heading("SEE ALSO")
    page.paragraph("slurm.conf(5), scontrol(1), sdiag(1)")
    return page


def management_page() -> Page:
    """Return the page of `pyslurm-ng`, from the help texts of its options."""
    page = Page("pyslurm-ng", 1, __version__, "run whole clusters on this host")
    context = click.Context(commands)
    verbs = commands.list_commands(context)
    page.heading("SYNOPSIS")
    page.synopsis("pyslurm-ng", f"{'|'.join(verbs)} [options]")
    for name in verbs:
        command = commands.get_command(context, name)
        assert command is not None, name
        page.heading(name.upper())
        page.paragraph(command.help or "")
        for option in command.params:
            assert isinstance(option, click.Option), option
            page.item(", ".join(option.opts) + _value(option, command), *_about(option))
    return page


def _value(option: click.Option, command: click.Command) -> str:
    """Return what stands behind an option: nothing for a flag."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.IntRange):
        return " N"
    return f" {option.make_metavar(click.Context(command))}"


def _about(option: click.Option) -> list[str]:
    """Return what an option is for and, where its help shows it, what holds without it."""
    if not option.show_default:
        return [option.help or ""]
    usual = option.show_default if isinstance(option.show_default, str) else option.default
    return [option.help or "", f"Default: {usual}."]


def pages() -> dict[str, Page]:
    """Return the pages by file name."""
    found = {f"{name}.8": daemon_page(name) for name in DAEMONS}
    return {**found, "pyslurm-ng.1": management_page()}

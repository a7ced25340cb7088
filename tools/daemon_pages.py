"""The manual pages of daemons, of PAM's module and of `pyslurm-ng`, with their options."""

from __future__ import annotations

import click
from man_sources import paragraphs, source
from roff import Page

from pyslurm_ng import __version__
from pyslurm_ng.cli import pam_adopt
from pyslurm_ng.ctld import __main__ as slurmctld
from pyslurm_ng.d import __main__ as slurmd
from pyslurm_ng.dbd import options as slurmdbd
from pyslurm_ng.up.__main__ import commands
from pyslurm_ng.web import options as slurmrestd

USAGES = {
    "slurmctld": slurmctld.USAGE,
    "slurmd": slurmd.USAGE,
    "slurmdbd": slurmdbd.USAGE,
    "slurmrestd": slurmrestd.USAGE,
}


def options_of(usage: str) -> list[tuple[str, str]]:
    """Return the options in a text that `--help` prints: how they are given, what they do."""
    options = []
    for line in usage.splitlines()[1:]:
        tag, _, text = line.strip().partition("  ")
        options.append((tag, text.strip()))
    return options


def daemon_page(name: str) -> Page:
    """Return the page of a daemon."""
    text = source(f"{name}.8")
    page = Page(name, 8, __version__, text["summary"])
    page.heading("SYNOPSIS")
    page.synopsis(name, text["synopsis"])
    page.heading("DESCRIPTION")
    for paragraph in paragraphs(text["description"]):
        page.paragraph(paragraph)
    page.heading("OPTIONS")
    for tag, purpose in options_of(USAGES[name]):
        page.item(tag, purpose)
    page.heading("EXAMPLE")
    page.example(text["example"])
    page.heading("SEE ALSO")
    page.paragraph("slurm.conf(5), scontrol(1), sdiag(1)")
    return page


def pam_page() -> Page:
    """Return the page of PAM's module and its program, with the words that both take."""
    text = source("pam_pyslurm_adopt.8")
    page = Page("pam_pyslurm_adopt", 8, __version__, text["summary"])
    page.heading("SYNOPSIS")
    page.synopsis("pam_pyslurm_adopt.so", text["synopsis"])
    page.heading("DESCRIPTION")
    for paragraph in paragraphs(text["description"]):
        page.paragraph(paragraph)
    page.heading("WORDS")
    known = {name: "|".join(values) for name, values in pam_adopt.ACTIONS.items()}
    known |= dict.fromkeys(pam_adopt.NAMES, "NAME") | {"conf": "FILE", "program": "FILE"}
    for name, values in known.items():
        usual = [f"Default: {values.partition('|')[0]}."] if "|" in values else []
        page.item(f"{name}={values}", text["words"][name], *usual)
    page.heading("SEE ALSO")
    page.paragraph(text["see_also"])
    return page


def management_page() -> Page:
    """Return the page of `pyslurm-ng`, from the help texts of its options."""
    text = source("pyslurm-ng.1")
    page = Page("pyslurm-ng", 1, __version__, text["summary"])
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
            if not isinstance(option, click.Option):
                continue  # the help text names the words that follow
            page.item(", ".join(option.opts) + _value(option, command), *_about(option))
    page.heading("EXAMPLE")
    page.example(text["example"])
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
    all_pages = {f"{name}.8": daemon_page(name) for name in USAGES}
    all_pages["pam_pyslurm_adopt.8"] = pam_page()
    return {**all_pages, "pyslurm-ng.1": management_page()}

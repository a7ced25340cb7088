"""`--help` and `--usage` of sbatch, salloc and srun, from the option tables."""

from pyslurm_ng.cli.option_lists import entry, is_about
from pyslurm_ng.cli.option_words import NONE, OPTIONAL
from pyslurm_ng.cli.submit.option_help import HELP, SECTIONS
from pyslurm_ng.cli.submit.options import is_implemented

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options

OPERANDS = {
    "sbatch": "executable [args...]",
    "salloc": "[command [args...]]",
    "srun": "executable [args...]",
}
_SYNTAX = {
    "sbatch": "[OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]",
    "salloc": "[OPTIONS(0)...] [ : [OPTIONS(N)]] [command(0) [args(0)...]]",
    "srun": "[OPTIONS(0)... [executable(0) [args(0)...]]] [ : [OPTIONS(N)...]] executable(N) "
    "[args(N)...]",
}
_WIDTH = 78


def _listed(options: "Options") -> "list[tuple[Any, ...]]":
    rows = options.by_name.values()
    return [row for row in rows if is_implemented(row[0]) and row[0] != "autocomplete"]


def _usage_rows(options: "Options") -> "list[tuple[Any, ...]]":
    return _listed(options) + (options.plugins.rows() if options.plugins is not None else [])


def help_text(options: "Options") -> str:
    """Return the text of --help: each option that works, by section, and what it is for."""
    sections: list[list[str]] = [[f"{title}:"] for title in SECTIONS]
    help_lines, version_lines = ["Help options:"], ["Other options:"]
    for row in _listed(options):
        argument, section, purpose = HELP[row[0]]
        lines = sections[section]
        if row[0] == "version":
            lines = version_lines
        elif is_about(row[0]):
            lines = help_lines
        lines.extend(entry(row, argument, purpose))
    head = f"Usage: {options.command} {_SYNTAX[options.command]}"
    plugins = options.plugins.help_lines() if options.plugins is not None else []
    own = [["Options provided by plugins:", *plugins]] if plugins else []
    blocks = [[head], *sections, *own, help_lines, version_lines]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def usage_text(options: "Options") -> str:
    """Return the text of --usage: every option in brackets, then the operand."""
    words = [f"Usage: {options.command}"]
    for row in _usage_rows(options):
        short = f"-{row[1]}|" if row[1] else ""
        value = "" if row[2] == NONE else "[=value]" if row[2] == OPTIONAL else "=value"
        words.append(f"[{short}--{row[0]}{value}]")
    words.append(OPERANDS[options.command])
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 1 > _WIDTH:
            lines.append(" " * 12 + word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"

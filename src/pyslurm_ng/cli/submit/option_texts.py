"""`--help` and `--usage` of sbatch, salloc and srun, from the option tables."""

from pyslurm_ng.cli.option_lists import entry, is_about
from pyslurm_ng.cli.option_words import NONE, OPTIONAL
from pyslurm_ng.cli.submit.option_help import HELP
from pyslurm_ng.cli.submit.options import is_implemented

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options

OPERANDS = {
    "sbatch": "script [args...]",
    "salloc": "[command [args...]]",
    "srun": "executable [args...]",
}
_WIDTH = 78


def _shown(options: "Options") -> "list[tuple[Any, ...]]":
    rows = options.by_name.values()
    return [row for row in rows if is_implemented(row[0])]


def help_text(options: "Options") -> str:
    """Return the text of --help: each option that works, with its purpose."""
    rows = _shown(options)
    lines = [f"Usage: {options.command} [OPTIONS] {OPERANDS[options.command]}", "", "Options:"]
    for row in rows:
        if not is_about(row[0]):
            lines += entry(row, HELP[row[0]][0], HELP[row[0]][2])
    lines += ["", "Help options:"]
    for row in rows:
        if is_about(row[0]):
            lines += entry(row, HELP[row[0]][0], HELP[row[0]][2])
    return "\n".join(lines) + "\n"


def usage_text(options: "Options") -> str:
    """Return what --usage prints: every option in brackets of its own, then the operand."""
    words = [f"Usage: {options.command}"]
    for row in _shown(options):
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

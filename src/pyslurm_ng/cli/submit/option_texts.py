"""`--help` and `--usage` of sbatch, salloc and srun, from the option tables."""

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
_LEFT = 34
_WIDTH = 78
_LAST = ("help", "usage", "version")


def _shown(options: "Options") -> "list[tuple[Any, ...]]":
    rows = options.by_name.values()
    return [row for row in rows if is_implemented(row[0])]


def help_text(options: "Options") -> str:
    """Return what --help prints: each option that works, with what it is for."""
    rows = _shown(options)
    lines = [f"Usage: {options.command} [OPTIONS] {OPERANDS[options.command]}", "", "Options:"]
    for row in rows:
        if row[0] not in _LAST:
            lines += _entry(row)
    lines += ["", "Help options:"]
    for row in rows:
        if row[0] in _LAST:
            lines += _entry(row)
    return "\n".join(lines) + "\n"


def _entry(row: "tuple[Any, ...]") -> "list[str]":
    kind, _, text = HELP[row[0]]
    argument = "" if row[2] == NONE else f"[={kind}]" if row[2] == OPTIONAL else f"={kind}"
    argument = argument if len(argument) < 20 else "=VALUE"
    letter = f"-{row[1]}, " if row[1] else "    "
    head = f"  {letter}--{row[0]}{argument}"
    lines = [head] if len(head) >= _LEFT else []
    left = " " * _LEFT if lines else f"{head:<{_LEFT}}"
    for word in text.split():
        if len(left) + len(word) + 1 > _WIDTH and left.strip():
            lines.append(left.rstrip())
            left = " " * _LEFT
        left += word if len(left) == _LEFT else f" {word}"
    return [*lines, left]


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

"""How `--help` lists options: each on a line with its purpose."""

from pyslurm_ng.cli.option_words import NONE, OPTIONAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyslurm_ng.cli.option_words import Row

_LEFT = 30
_WIDTH = 78
_ABOUT = ("help", "usage", "version")


def entry(row: "Row", value: str, purpose: str) -> "list[str]":
    """Return the lines of one option; `value` names its argument, if it takes one."""
    argument = "" if row[2] == NONE else f"[={value}]" if row[2] == OPTIONAL else f"={value}"
    letter = f"-{row[1]}, " if row[1] else "    "
    return _beside(f"  {letter}--{row[0]}{argument}", purpose)


def table(rows: "Iterable[tuple[str, str]]") -> str:
    """Return lines about commands or other words, with the purpose of each."""
    return "\n".join(line for head, purpose in rows for line in _beside(f"  {head}", purpose))


def _beside(head: str, purpose: str) -> "list[str]":
    """Return the lines of one entry: its head, and its purpose in the right column."""
    lines = [head] if len(head) >= _LEFT else []
    line = " " * _LEFT if lines else f"{head:<{_LEFT}}"
    for word in purpose.split():
        if len(line) + len(word) + 1 > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * _LEFT
        line += word if len(line) == _LEFT else f" {word}"
    return [*lines, line] if line.strip() else lines


def is_about(name: str) -> bool:
    """Return whether an option only prints something about the command."""
    return name.startswith(_ABOUT)


def option_list(
    command: str, rows: "Iterable[Row]", same: "Mapping[str, str]", hidden: "Collection[str]"
) -> str:
    """Return the lines for a command's options; options about the command itself come last.

    Args:
        same: names that mean another option; their letters are listed with that option.
        hidden: options that are not implemented.
    """
    from pyslurm_ng.cli.option_purposes import PURPOSES

    rows = list(rows)
    letters = {same.get(row[0], row[0]): row[1][0] for row in rows if row[1]}
    known = {row[0] for row in rows}
    options: list[str] = []
    about = ["Help options:"]
    for name, _, argument in rows:
        if name == "autocomplete" or name in hidden or same.get(name) in known:
            continue
        row = (name, letters.get(name, ""), argument)
        lines = entry(row, *PURPOSES[command][name])
        (about if is_about(name) else options).extend(lines)
    return "\n".join([*options, "", *about])

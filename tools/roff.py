"""Write manual pages: a few words of roff's man macros, escaped once and for all."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Return text that roff prints as it is."""
    lines = []
    for line in text.replace("\\", "\\e").replace("-", "\\-").splitlines():
        lines.append("\\&" + line if line.startswith((".", "'")) else line)
    return "\n".join(lines)


class Page:
    """One manual page; methods append to it, `text()` is the file's content."""

    def __init__(self, name: str, section: int, version: str, summary: str) -> None:
        self._lines = [
            f'.TH "{name.upper()}" "{section}" "" "{version}" "pyslurm\\-ng"',
            ".nh",
            ".SH NAME",
            f"{escaped(name)} \\- {escaped(summary)}",
        ]

    def heading(self, text: str) -> None:
        self._lines.append(f".SH {escaped(text)}")

    def paragraph(self, text: str) -> None:
        self._lines += [".PP", escaped(text)]

    def synopsis(self, name: str, rest: str) -> None:
        self._lines += [".PP", f"\\fB{escaped(name)}\\fR {escaped(rest)}".rstrip()]

    def item(self, tag: str, *paragraphs: str) -> None:
        """Append one entry of a list: a bold tag, and indented text below it."""
        self._lines += [".TP", f"\\fB{escaped(tag)}\\fR", escaped(paragraphs[0])]
        for paragraph in paragraphs[1:]:
            self._lines += [".IP", escaped(paragraph)]

    def example(self, text: str) -> None:
        self._lines += [".PP", ".nf", ".RS 4", escaped(text.strip("\n")), ".RE", ".fi"]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

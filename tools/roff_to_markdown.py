"""Turn a manual page into Markdown for the site: the few words of roff that our pages use."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$^])")
_REFERENCE = re.compile(r"\b([a-z][\w.-]*)\((\d)\)")


def plain(text: str) -> str:
    """Return what roff prints of a text without fonts."""
    text = text.replace("\\&", "").replace("\\-", "-")
    return re.sub(r"\\f[BIR]", "", text).replace("\\e", "\\")


def marked(text: str, pages: frozenset[str]) -> str:
    """Return a text with Markdown's signs escaped, and references to other pages as links."""
    escaped = _SPECIAL.sub(r"\\\1", plain(text))

    def link(match: re.Match[str]) -> str:
        name = f"{match[1]}.{match[2]}"
        return f"[{match[0]}]({name}.md)" if name in pages else match[0]

    return _REFERENCE.sub(link, escaped)


def markdown(name: str, page: str, pages: frozenset[str]) -> str:
    """Return a page as Markdown.

    Args:
        name: of its file, as `sbatch.1`.
        page: its text in roff.
        pages: the names of all pages, which may be linked.
    """
    title, _, section = name.rpartition(".")
    lines = [f"# {title}({section})", ""]
    for kind, text in _blocks(page.splitlines()):
        if kind == "SH":
            lines += [f"## {plain(text).capitalize()}", ""]
        elif kind == "TAG":
            lines.append(f"``{plain(text)}``" if "`" in text else f"`{plain(text)}`")
        elif kind == "TP":
            lines += [f": {marked(text, pages)}", ""]
        elif kind == "IP":
            lines += [f"  {marked(text, pages)}", ""]
        elif kind == "EX":
            lines += ["```text", plain(text), "```", ""]
        else:
            lines += [marked(text, pages), ""]
    return "\n".join(lines)


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, text): SH, PP, TAG with TP behind it, IP, EX for text that is kept as it is."""
    kind, gathered, example = "", list[str](), False
    for line in [*lines, ".PP"]:
        word = line.split(" ", 1)[0]
        if example and word not in (".fi", ".RS", ".RE"):
            gathered.append(line)
        elif not line.startswith(".") and kind == "TAG":
            yield "TAG", line
            kind = "TP"
        elif not line.startswith("."):
            gathered.append(line)
        elif word in (".TH", ".nh", ".RS", ".RE"):
            continue
        else:
            if gathered:
                yield kind or "PP", "\n".join(gathered)
            gathered, example = [], word == ".nf"
            kind = {".TP": "TAG", ".IP": "IP", ".nf": "EX"}.get(word, "PP")
            if word == ".SH":
                yield "SH", line.split(" ", 1)[1]
            elif word not in (".PP", ".TP", ".IP", ".nf", ".fi"):
                raise ValueError(f"a word of roff that is not known here: {line}")

"""Configuration text to lines of ``Key=Value`` entries, as every Slurm file is written.

A ``#`` begins a comment unless a backslash stands before it or quotes enclose it. A backslash at
the end of a line joins the next line. ``Include PATH`` inserts a file; the path is relative to the
including file, and ``%c`` in it is the cluster's name. Keys are case-insensitive. Double quotes
keep blanks in a value.

Problems are collected, not raised, so that one run names all of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

from pyslurm_ng.base.errors import ConfigurationError
from pyslurm_ng.base.input_files import MOST_OF_CONF, read_whole

# Old releases of Slurm allow 1,024 characters a line. This bound only keeps memory finite.
_MAX_LINE = 1 << 20
_MAX_INCLUDE_DEPTH = 16


class ConfError(NamedTuple):
    """One problem: its place, and what is allowed there. Line 0 is the file as a whole."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {self.key}: {self.text}" if self.key else f"{location}: {self.text}"


class ConfErrors(ConfigurationError):
    """Every error of a configuration, in the order of the file."""

    def __init__(self, errors: list[ConfError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors


class Entry(NamedTuple):
    """One ``Key=Value``; the key as written, the value without quotes."""

    key: str
    value: str
    file: str
    line: int


@dataclass
class ConfText:
    """A file with all it includes: lines of entries, and what could not be read.

    `text_hash` covers every byte of every file, so that two hosts can compare configurations.
    `warnings` name keys without effect; `named` holds the keys of repeated lines that are already
    among them.
    """

    path: str
    lines: list[list[Entry]] = field(default_factory=list)
    errors: list[ConfError] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    text_hash: str = ""
    warnings: list[str] = field(default_factory=list)
    named: set[tuple[str, str]] = field(default_factory=set)

    def fail(self, entry: Entry, text: str) -> None:
        """Record a problem with one entry."""
        self.errors.append(ConfError(entry.file, entry.line, entry.key, text))

    def warn(self, entry: Entry, text: str) -> None:
        """Record what to know of an entry that counts, or is left out."""
        self.warnings.append(f"{entry.file}:{entry.line}: {entry.key}: {text}")


def read_conf(path: str) -> ConfText:
    """Read a configuration file and what it includes. The content of the files never raises."""
    conf = ConfText(path)
    digest = hashlib.sha256()
    _read_file(conf, path, (), digest, [""])
    conf.text_hash = digest.hexdigest()
    return conf


def parse_text(text: str, path: str = "-") -> ConfText:
    """Read configuration given as a string; ``Include`` is relative to the working directory."""
    conf = ConfText(path, files=[path])
    digest = hashlib.sha256(text.encode())
    _read_lines(conf, text, path, (), digest, [""])
    conf.text_hash = digest.hexdigest()
    return conf


def parse_words(text: str, path: str = "-", line: int = 0) -> ConfText:
    """Read one line of entries, as ``slurmd --conf`` or ``scontrol update`` give them."""
    conf = ConfText(path)
    entries = _entries(conf, text, path, line)
    if entries:
        conf.lines.append(entries)
    return conf


def _read_file(
    conf: ConfText,
    path: str,
    parents: tuple[str, ...],
    digest: hashlib._Hash,
    cluster: list[str],
    include: ConfError | None = None,
) -> None:
    """Read one file; if that fails, the error names `include`, the line that asked for it."""
    try:
        with open(path, "rb") as stream:
            raw = read_whole(stream, MOST_OF_CONF)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        if include is None:
            conf.errors.append(ConfError(path, 0, "", problem))
        else:
            conf.errors.append(include._replace(text=f"{include.text} {problem}"))
        return
    conf.files.append(path)
    digest.update(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        conf.errors.append(ConfError(path, line, "", "not UTF-8 text"))
        return
    _read_lines(conf, text, path, parents, digest, cluster)


def _read_lines(
    conf: ConfText,
    text: str,
    path: str,
    parents: tuple[str, ...],
    digest: hashlib._Hash,
    cluster: list[str],
) -> None:
    """Read the lines of one file.

    `cluster` is a list of one text: the cluster's name once it is known, for ``%c`` in Include.
    """
    pending = ""
    first_line = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if not pending:
            first_line = number
        if "#" in line:
            line = _without_comment(line)
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        line = pending + line
        pending = ""
        if len(line) > _MAX_LINE:
            conf.errors.append(
                ConfError(path, first_line, "", f"longer than {_MAX_LINE} characters")
            )
            continue
        if "\0" in line:
            conf.errors.append(ConfError(path, first_line, "", "NUL characters are not allowed"))
            continue
        stripped = line.strip()
        if not stripped:
            continue
        if stripped[:7].lower() == "include" and stripped[7:8] in (" ", "\t"):
            target = stripped[7:].strip().strip('"')
            _include(conf, target, path, first_line, parents, digest, cluster)
            continue
        entries = _entries(conf, stripped, path, first_line)
        if entries and not entries[-1].value and stripped[-1] == "=":
            text = 'a value is missing; an empty one is written ""'
            conf.errors.append(ConfError(path, first_line, entries[-1].key, text))
        elif entries:
            conf.lines.append(entries)
            if entries[0].key.lower() == "clustername":
                cluster[0] = entries[0].value.lower()
    if pending.strip():
        conf.errors.append(ConfError(path, first_line, "", "the file ends in a continued line"))


def _include(
    conf: ConfText,
    target: str,
    path: str,
    line: int,
    parents: tuple[str, ...],
    digest: hashlib._Hash,
    cluster: list[str],
) -> None:
    if "%c" in target:
        if not cluster[0]:
            conf.errors.append(
                ConfError(path, line, "Include", "%c needs ClusterName= in an earlier line")
            )
            return
        target = target.replace("%c", cluster[0])
    # os.path is not used, because the core imports types from here and must not import os. A loop
    # through links ends at _MAX_INCLUDE_DEPTH.
    full = target if target.startswith("/") else path.rpartition("/")[0] + "/" + target
    if "/" not in path and not target.startswith("/"):
        full = target
    chain = (*parents, path)
    if full in chain:
        conf.errors.append(ConfError(path, line, "Include", f"{target} includes itself"))
    elif len(chain) >= _MAX_INCLUDE_DEPTH:
        conf.errors.append(
            ConfError(path, line, "Include", f"more than {_MAX_INCLUDE_DEPTH} files deep")
        )
    else:
        _read_file(conf, full, chain, digest, cluster, ConfError(path, line, "Include", target))


def _without_comment(line: str) -> str:
    """Return a line without its comment; ``\\#`` and a # in quotes stay as ``#``."""
    if '"' not in line and "\\#" not in line:
        return line.partition("#")[0].rstrip()
    characters: list[str] = []
    in_quotes = False
    position = 0
    while position < len(line):
        character = line[position]
        if character == '"':
            in_quotes = not in_quotes
        elif character == "\\" and line[position + 1 : position + 2] == "#":
            character = "#"
            position += 1
        elif character == "#" and not in_quotes:
            return "".join(characters).rstrip()
        characters.append(character)
        position += 1
    return "".join(characters)


def _entries(conf: ConfText, text: str, path: str, line: int) -> list[Entry]:
    """Return the entries of a line; [] and an error if some part of it is not an entry."""
    entries: list[Entry] = []
    position = 0
    size = len(text)
    while position < size:
        equals = text.find("=", position)
        key = text[position:equals].strip() if equals >= 0 else ""
        if not key or not all(c.isalnum() or c in "_-.+" for c in key):
            rest = text[position:].split()
            if not rest:
                break  # blanks at the end
            conf.errors.append(ConfError(path, line, rest[0][:60], "expected Key=Value"))
            return []
        position = equals + 1
        while position < size and text[position] in " \t":
            position += 1
        if position < size and text[position] == '"':
            end = text.find('"', position + 1)
            if end < 0:
                conf.errors.append(ConfError(path, line, key, "quote without its end"))
                return []
            value = text[position + 1 : end]
            position = end + 1
            if position < size and text[position] not in " \t":
                conf.errors.append(ConfError(path, line, key, "text right behind a closing quote"))
                return []
        else:
            end = position
            while end < size and text[end] not in " \t":
                if text[end] == '"':
                    # A quote inside a word keeps blanks too: Options=a="b c",d
                    closing = text.find('"', end + 1)
                    if closing < 0:
                        conf.errors.append(ConfError(path, line, key, "quote without its end"))
                        return []
                    end = closing
                end += 1
            value = text[position:end]
            position = end
        while position < size and text[position] in " \t":
            position += 1
        entries.append(Entry(key, value, path, line))
    return entries

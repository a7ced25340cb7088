"""plugstack.conf: the plugins that take part in launching jobs, line by line.

    required /etc/slurm/renice.py  argument argument
    optional site_tmp
    include plugstack.conf.d/*.conf

A plugin is a Python file (a relative path begins where plugstack.conf is) or the name of an entry
point. Commands read this file, too, so it imports next to nothing.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_MOST_INCLUDES = 16  # of one plugstack.conf in another
_MOST_LINES = 1000
_MOST_BYTES = 1 << 20
_WORDS = {"required": True, "optional": False}


class PlugLine:
    """One plugin: its file or entry point, its arguments, and whether steps fail without it."""

    __slots__ = ("arguments", "file", "is_required", "number", "plugin")

    def __init__(
        self, file: str, number: int, plugin: str, arguments: "list[str]", *, is_required: bool
    ) -> None:
        self.file = file
        self.number = number
        self.plugin = plugin
        self.arguments = arguments
        self.is_required = is_required

    @property
    def name(self) -> str:
        """What messages and variables call the plugin: its file's name without `.py`."""
        return os.path.basename(self.plugin).removesuffix(".py")

    @property
    def is_file(self) -> bool:
        """Whether the plugin is a Python file, not an entry point."""
        return self.plugin.endswith(".py")

    def fields(self) -> "dict[str, Any]":
        """Return the line as a map, for another process."""
        return {name: getattr(self, name) for name in self.__slots__}


def line_of(fields: "Mapping[str, Any]") -> PlugLine:
    """Return the line of which `fields` is the map."""
    return PlugLine(**fields)


class PlugStack:
    """All lines of a plugstack.conf, those of included files in their place.

    Attributes:
        lines: the plugins, in the order in which they are called.
        problems: (file, line number, word, what is wrong): no daemon starts with these.
        left_out: the same, of optional plugins that are left out.
    """

    def __init__(self) -> None:
        self.lines: list[PlugLine] = []
        self.problems: list[tuple[str, int, str, str]] = []
        self.left_out: list[tuple[str, int, str, str]] = []


def stack_path(conf_path: str, plug_stack_config: str) -> str:
    """Return where the plugstack.conf of a slurm.conf is."""
    return os.path.join(os.path.dirname(conf_path), plug_stack_config or "plugstack.conf")


def read_plugstack(path: str) -> PlugStack:
    """Return the plugins of a file; none if there is no such file."""
    stack = PlugStack()
    _read(path, stack, 0)
    return stack


def _read(path: str, stack: PlugStack, depth: int) -> None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except FileNotFoundError:
        return
    except OSError as problem:
        stack.problems.append((path, 0, "", f"cannot be read: {problem.strerror}"))
        return
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words and len(stack.lines) >= _MOST_LINES:
            stack.problems.append((path, number, words[0], f"only {_MOST_LINES} are allowed"))
            return
        if words:
            _take(path, number, words, stack, depth)


def _take(path: str, number: int, words: "Sequence[str]", stack: PlugStack, depth: int) -> None:
    """Add what one line says."""
    word, *rest = words
    if word not in _WORDS and word != "include":
        text = "is not known; required, optional and include are allowed"
        stack.problems.append((path, number, word, text))
    elif not rest:
        text = "names nothing; it is followed by a plugin or, for include, by a file"
        stack.problems.append((path, number, word, text))
    elif word == "include":
        _include(path, number, rest[0], stack, depth)
    elif rest[0].endswith(".so"):
        # Jobs would run without what a required plugin decides; optional ones may be missing.
        if _WORDS[word]:
            text = f"{rest[0]} cannot be loaded by this version; make it optional or leave it out"
            stack.problems.append((path, number, word, text))
        else:
            text = f"{rest[0]} is left out: plugins are Python files here, not C libraries"
            stack.left_out.append((path, number, word, text))
    else:
        plugin = rest[0]
        if plugin.endswith(".py"):
            plugin = os.path.join(os.path.dirname(os.path.abspath(path)), plugin)
        elif "/" in plugin:
            text = f"{plugin} is no plugin: a file NAME.py or an entry point is allowed"
            stack.problems.append((path, number, word, text))
            return
        line = PlugLine(path, number, plugin, list(rest[1:]), is_required=_WORDS[word])
        stack.lines.append(line)


def _include(path: str, number: int, pattern: str, stack: PlugStack, depth: int) -> None:
    if depth >= _MOST_INCLUDES:
        text = f"{pattern}: files may include each other {_MOST_INCLUDES} times"
        stack.problems.append((path, number, "include", text))
        return
    import glob

    for included in sorted(glob.glob(os.path.join(os.path.dirname(path), pattern))):
        _read(included, stack, depth + 1)

"""The file of --multi-prog: the program of each task."""

from functools import lru_cache

from pyslurm_ng.base.input_files import TooLong, read_whole
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import ENVIRONMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from pyslurm_ng.cli.submit.options import Options

    Word: TypeAlias = list[tuple[str, bool]]

_MOST_TASKS = 1 << 24


class MultiProgError(Exception):
    """The file cannot be used; the text is one line."""


def check_programs(options: "Options", path: str) -> None:
    """Check the file before there is an allocation; its tasks count where no option counts them.

    Raises:
        OptionError: it cannot be used for so many tasks.
    """
    _lines.cache_clear()
    try:
        if "ntasks" not in options.given and not options.request.get("ntasks_per_node"):
            lists = [(line.tasks, line.number) for line in _lines(path) if line.tasks != "*"]
            tasks = [task for text, number in lists for task in _tasks(text, path, number)]
            count = max(tasks, default=0) + 1
            options.apply_all([("ntasks", str(count))], ENVIRONMENT)
        if count := options.request.get("ntasks", 0):
            read_programs(path, count)
    except MultiProgError as problem:
        raise OptionError(str(problem), 1) from None


def read_programs(
    path: str, ntasks: int, more_words: "Sequence[str]" = ()
) -> "list[dict[str, Any]]":
    """Return the programs of tasks 0 to `ntasks`-1, as LaunchStep takes them.

    A line is a task list (`0`, `1-3,5`, `*` for the rest in the last line) and a command; `%t`
    stands for the task number, `%o` for the task's place in its list, for `*` its number. In single
    quotes nothing is replaced. `#` begins a comment line, a backslash at the end goes on in the
    next line.

    Args:
        more_words: further arguments of each program, from srun's command line.

    Raises:
        MultiProgError: unreadable, a bad task list, a task twice or not at all, or beyond `ntasks`.
    """
    argv_of: dict[int, list[str]] = {}
    rest: _Line | None = None
    for line in _lines(path):
        if rest is not None:
            raise _invalid("Task range specification with asterisk must be last", path, line.number)
        if line.tasks == "*":
            rest = line
            continue
        tasks = _tasks(line.tasks, path, line.number)
        beyond = [task for task in tasks if task >= ntasks]
        if beyond:
            raise _invalid(f"Invalid task id, {max(beyond)} >= ntasks", path, line.number)
        for offset, task in enumerate(tasks):
            if task in argv_of:
                raise _invalid(f"Duplicate record for task {task}", path, line.number)
            argv_of[task] = line.argv(task, offset, more_words)
    for task in range(ntasks):
        if task not in argv_of:
            if rest is None:
                raise MultiProgError(
                    f"Configuration file {path} invalid, no record for task id {task}"
                )
            argv_of[task] = rest.argv(task, task, more_words)
    return _grouped(argv_of, ntasks)


class _Line:
    """A line of the file: its task list, and the words of its command in parts.

    Each part is a text and whether `%t` and `%o` are replaced in it.
    """

    __slots__ = ("_words", "number", "tasks")

    def __init__(self, number: int, words: "list[Word]") -> None:
        self.number = number
        self.tasks = "".join(text for text, _ in words[0])
        self._words = words[1:]

    def argv(self, task: int, offset: int, more_words: "Sequence[str]") -> "list[str]":
        """Return a task's program and arguments."""
        return [
            "".join(_filled(text, task, offset) if is_plain else text for text, is_plain in word)
            for word in self._words
        ] + list(more_words)


def _invalid(text: str, path: str, number: int) -> MultiProgError:
    return MultiProgError(f"{text}\nLine {number} of configuration file {path} invalid")


@lru_cache(1)
def _lines(path: str) -> "list[_Line]":
    """Return the lines that have words.

    The file is read once: it may be a pipe, and it is looked at before and after the allocation.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            text = read_whole(stream)
    except TooLong as problem:
        raise MultiProgError(f"{path}: {problem.strerror}") from None
    except OSError as problem:
        raise MultiProgError(f"Could not open multi_prog config file {path}") from problem
    lines = []
    for number, line in enumerate(text.replace("\\\n", "").split("\n"), 1):
        words = _split(line)
        if len(words) == 1:
            raise MultiProgError(f"Line {number} of configuration file {path} invalid")
        if words:
            lines.append(_Line(number, words))
    return lines


def _grouped(argv_of: "dict[int, list[str]]", ntasks: int) -> "list[dict[str, Any]]":
    programs: dict[tuple[str, ...], list[int]] = {}
    for task in range(ntasks):
        programs.setdefault(tuple(argv_of[task]), []).append(task)
    return [{"argv": list(argv), "tasks": tasks} for argv, tasks in programs.items()]


def _filled(word: str, task: int, offset: int) -> str:
    return word.replace("%t", str(task)).replace("%o", str(offset))


def _tasks(text: str, path: str, number: int) -> "list[int]":
    """Return the tasks of a list in its order; parts without a number are left out, as in Slurm."""
    tasks: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not part:
            continue
        if not first and last.isdecimal():
            raise _invalid(f"Invalid task id, {part} < 0", path, number)
        if not first.isdecimal():
            raise _invalid(f"Invalid task range specification ({text})", path, number)
        if not last.isdecimal():
            raise _invalid("Invalid task range specification", path, number)
        if int(first) > int(last):
            raise _invalid(f"Invalid task range, {part}", path, number)
        if int(last) >= _MOST_TASKS:
            raise _invalid(f"Invalid task id, {last} >= ntasks", path, number)
        tasks += range(int(first), int(last) + 1)
    return tasks


def _split(line: str) -> "list[Word]":
    """Return the words of a line: single quotes group, a backslash protects the next letter."""
    if line.lstrip().startswith("#"):
        return []
    words: list[Word] = []
    word: Word | None = None
    is_quoted = is_protected = False
    for letter in line:
        if is_protected or (is_quoted and letter != "'"):
            word = _with_letter(word, letter, is_plain=False)
            is_protected = False
        elif letter == "'":
            is_quoted = not is_quoted
            word = [] if word is None else word
        elif letter == "\\":
            is_protected = True
        elif not letter.isspace():
            word = _with_letter(word, letter, is_plain=True)
        elif word is not None:
            words.append(word)
            word = None
    if word is not None:
        words.append(word)
    return words


def _with_letter(word: "Word | None", letter: str, *, is_plain: bool) -> "Word":
    word = word or []
    if word and word[-1][1] == is_plain:
        word[-1] = (word[-1][0] + letter, is_plain)
    else:
        word.append((letter, is_plain))
    return word

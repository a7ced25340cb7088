"""The file of --multi-prog: the program of each task."""

from functools import lru_cache

from pyslurm_ng.base.input_files import TooLong, read_whole
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import ENVIRONMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.submit.options import Options


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
            named = [(words[0], line) for line, words in _lines(path) if words[0] != "*"]
            tasks = [task for text, line in named for task in _tasks(text, path, line)]
            count = max(tasks, default=0) + 1
            options.apply_all([("ntasks", str(count))], ENVIRONMENT)
        if count := options.request.get("ntasks", 0):
            read_programs(path, count)
    except MultiProgError as problem:
        raise OptionError(str(problem), 1) from None


def read_programs(path: str, ntasks: int) -> "list[dict[str, Any]]":
    """Return the programs of tasks 0 to `ntasks`-1, as LaunchStep takes them.

    A line is a task list (`0`, `1-3,5`, `*` for the rest) and a command; `%t` stands for the task
    number, `%o` for the task's place in its list. `#` begins a comment, a backslash at the end
    goes on in the next line.

    Raises:
        MultiProgError: unreadable, a bad task list, a task twice or not at all, or beyond `ntasks`.
    """
    argv_of: dict[int, list[str]] = {}
    rest: list[str] | None = None
    for number, words in _lines(path):
        if words[0] == "*":
            rest = words[1:]
            continue
        for offset, task in enumerate(_tasks(words[0], path, number)):
            if task >= ntasks:
                raise MultiProgError(
                    f"Invalid task id, {task} >= ntasks\n"
                    f"Line {number} of configuration file {path} invalid"
                )
            if task in argv_of:
                raise MultiProgError(
                    f"Configuration file {path} invalid, multiple records for task id {task}"
                )
            argv_of[task] = [_filled(word, task, offset) for word in words[1:]]
    if rest is not None:
        missing_tasks = [task for task in range(ntasks) if task not in argv_of]
        for offset, task in enumerate(missing_tasks):
            argv_of[task] = [_filled(word, task, offset) for word in rest]
    for task in range(ntasks):
        if task not in argv_of:
            raise MultiProgError(f"Configuration file {path} invalid, no record for task id {task}")
    return _grouped(argv_of, ntasks)


@lru_cache(1)
def _lines(path: str) -> "list[tuple[int, list[str]]]":
    """Return the words of each line that has some, with the line's number.

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
    for number, line in enumerate(text.replace("\\\n", " ").split("\n"), 1):
        words = _split(line)
        if len(words) == 1:
            raise MultiProgError(f"Invalid configuration file {path} line {number}: no program")
        if words:
            lines.append((number, words))
    return lines


def _grouped(argv_of: "dict[int, list[str]]", ntasks: int) -> "list[dict[str, Any]]":
    programs: dict[tuple[str, ...], list[int]] = {}
    for task in range(ntasks):
        programs.setdefault(tuple(argv_of[task]), []).append(task)
    return [{"argv": list(argv), "tasks": tasks} for argv, tasks in programs.items()]


def _filled(word: str, task: int, offset: int) -> str:
    return word.replace("%t", str(task)).replace("%o", str(offset))


def _tasks(text: str, path: str, line: int) -> "list[int]":
    tasks: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdigit() and last.isdigit()) or int(last) >= 1 << 24:
            raise MultiProgError(f"Invalid task range {text!r} in {path} line {line}")
        tasks += range(int(first), int(last) + 1)
    return tasks


def _split(line: str) -> "list[str]":
    """Return the words of a line: quotes group, a backslash protects the next letter."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    position = 0
    while position < len(line):
        letter = line[position]
        position += 1
        if quote:
            if letter == quote:
                quote = ""
                continue
        elif letter in "'\"":
            quote = letter
            word = [] if word is None else word
            continue
        elif letter == "#" and word is None:
            break
        elif letter.isspace():
            if word is not None:
                words.append("".join(word))
                word = None
            continue
        elif letter == "\\" and position < len(line):
            letter = line[position]
            position += 1
        word = [] if word is None else word
        word.append(letter)
    if word is not None:
        words.append("".join(word))
    return words

"""Options in a batch script: `#SBATCH`, and the most used ones of `#PBS` and `#BSUB`."""

from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import SCRIPT
from pyslurm_ng.cli.submit.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Pairs: TypeAlias = list[tuple[str, str | None]]

_BLANKS = " \t\r\v\f"
_OF_THE_COMMAND = frozenset(("quiet", "verbose"))
"""Options that have no effect within a script: Slurm reads them before it."""


def apply_directives(
    options: Options, script: bytes, script_name: str, ignore_pbs: bool
) -> "list[Pairs]":
    """Apply the options in the comments before a script's first command.

    Return the options of each further component: those after a `#SBATCH hetjob`.

    Args:
        script_name: the script's name in errors, `stdin` if it has none.
        ignore_pbs: skip the lines of other systems.

    Raises:
        OptionError: an option or its value is wrong; the text names the line if Slurm's does.
    """
    further: list[Pairs] = []
    foreign: list[tuple[int, str]] = []
    is_closed = False  # after a `--`, further lines have no options
    for number, line in _comment_lines(script):
        if line.startswith("#SBATCH"):
            words = split_directive(line[7:], f"{script_name}: line {number}")
            if words in (["hetjob"], ["packjob"]):
                further.append([])
                is_closed = False
                continue
            pairs, rest = ([], words) if is_closed else options.split_words(words)
            is_closed = is_closed or _ends_options(options, words)
            if rest:
                raise OptionError(f"Invalid directive found in batch script: {rest[0]}")
            pairs = [pair for pair in pairs if pair[0] not in _OF_THE_COMMAND]
            if further:
                further[-1] += pairs
            else:
                options.apply_all(pairs, SCRIPT)
        elif not further and line.startswith(("#PBS", "#BSUB")):
            foreign.append((number, line))  # other systems have no components
    # As in Slurm, they are read after all lines of Slurm's own, and prevail.
    for number, line in () if ignore_pbs or "ignore-pbs" in options.settings else foreign:
        prefix = "#PBS" if line.startswith("#PBS") else "#BSUB"
        words = split_directive(line[len(prefix) :], f"{script_name}: line {number}")
        translate = _pbs if prefix == "#PBS" else _bsub
        options.apply_all(translate(words), SCRIPT)
    return further


def _ends_options(options: Options, words: "list[str]") -> bool:
    """Return whether a line has a `--` that is not the value of an option."""
    if "--" not in words:
        return False
    pairs, _ = options.split_words([*words, "--usage"])
    return pairs[-1:] != [("usage", None)]


def _comment_lines(script: bytes) -> "list[tuple[int, str]]":
    """Return (number, text) of the lines up to the first that is neither blank nor a comment."""
    comment_lines = []
    number = 0
    position = 0
    while position < len(script):
        end = script.find(b"\n", position)
        end = len(script) if end < 0 else end
        line = script[position:end]
        number += 1
        position = end + 1
        if not line.strip():
            continue
        if line.lstrip()[:1] != b"#":
            break
        if line[:2] in (b"#S", b"#P", b"#B"):
            comment_lines.append((number, line.decode("utf-8", "surrogateescape")))
    return comment_lines


def split_directive(text: str, where: str) -> "list[str]":
    """Return the words of a line; quotes and backslashes work as in a shell, and # ends the line.

    Unlike in a shell, a backslash counts within single quotes, too, and keeps no blank elsewhere.

    Raises:
        OptionError: a quotation mark is not closed.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    position = 0
    body = text.strip(_BLANKS)
    while position < len(body):
        letter = body[position]
        position += 1
        if letter == "\\" and not quote and body[position : position + 1] in _BLANKS:
            continue  # it is dropped, and the blank ends the word
        if letter == "\\":
            word = (word or "") + body[position : position + 1] if body[position:] else word
            position += 1
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word = (word or "") + letter
        elif letter in "'\"":
            quote = letter
            word = word or ""
        elif letter in _BLANKS:
            if word is not None:
                words.append(word)
            word = None
        elif letter == "#":
            break  # even within a word
        else:
            word = (word or "") + letter
    if quote:
        raise OptionError(f"{where}: Unmatched `{quote}` in [{body}]", 1, "fatal: ")
    if word is not None:
        words.append(word)
    return words


# PBS --------------------------------------------------------------------------------------------

_PBS_TEXTS = {
    "A": "account", "a": "begin", "e": "error", "o": "output", "M": "mail-user", "N": "job-name",
    "q": "partition", "J": "array", "t": "array", "d": "chdir", "w": "chdir", "P": "wckey",
}  # fmt: skip
_PBS_MAIL = {"a": "FAIL", "b": "BEGIN", "e": "END", "n": "NONE"}


def _letter_pairs(words: "list[str]", prefix: str, switches: str) -> "list[tuple[str, str]]":
    """Return (letter or word after the dash, value) for the options of another system's line."""
    pairs = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word[:1] != "-" or len(word) < 2:
            raise OptionError(f"Invalid argument: {word}", 1)
        name, value = word[1], word[2:]
        if prefix == "#BSUB" and len(word) > 2 and word[1:].isalpha():
            name, value = word[1:], ""
        if name not in switches and not value:
            if position == len(words):
                raise OptionError(f"{prefix} -{name} requires an argument")
            value = words[position]
            position += 1
        pairs.append((name, value))
    return pairs


def _pbs(words: "list[str]") -> "Pairs":
    """Translate one line of #PBS.

    Raises:
        OptionError: an option has no counterpart here.
    """
    pairs: Pairs = []
    for letter, value in _letter_pairs(words, "#PBS", "hIVXz"):
        if letter in _PBS_TEXTS:
            pairs.append((_PBS_TEXTS[letter], value.partition("@")[0] if letter == "q" else value))
        elif letter == "l":
            pairs += _pbs_resources(value)
        elif letter == "m":
            events = [_PBS_MAIL[event] for event in value if event in _PBS_MAIL]
            pairs.append(("mail-type", ",".join(events) or "NONE"))
        elif letter == "r":
            pairs.append(("requeue" if value[:1].lower() == "y" else "no-requeue", None))
        elif letter == "h":
            pairs.append(("hold", None))
        elif letter == "V":
            pairs.append(("export", "ALL"))
        elif letter == "v":
            pairs.append(("export", f"ALL,{value}"))
        elif letter == "p":
            pairs.append(("nice", str(-int(value)) if value.lstrip("+-").isdecimal() else "0"))
        elif letter == "W" and value.startswith("depend="):
            pairs.append(("dependency", value[7:]))  # PBS' words are for job_submit/pbs
        elif letter in ("j", "S", "k"):
            continue  # output is joined, and the first line names the interpreter, without them
        else:
            raise OptionError(f"#PBS -{letter} is not implemented yet", 1)
    return pairs


def _pbs_resources(text: str) -> "Pairs":
    """Translate the resource list `nodes=2:ppn=4,walltime=1:00:00,mem=4gb`."""
    pairs: Pairs = []
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name in ("nodes", "select"):
            pairs += _pbs_nodes(value)
        elif name in ("walltime", "cput"):
            pairs.append(("time", value))
        elif name in ("mem", "pmem", "vmem", "pvmem"):
            option = "mem-per-cpu" if name.startswith("p") else "mem"
            pairs.append((option, _pbs_size(value)))
        elif name in ("ncpus", "procs"):
            pairs.append(("ntasks" if name == "procs" else "cpus-per-task", value))
        elif name in ("ngpus", "gpus"):
            pairs.append(("gpus", value))
        elif name == "file":
            pairs.append(("tmp", _pbs_size(value)))
        elif name == "host":
            pairs.append(("nodelist", value))
        elif name == "nice":
            pairs.append(("nice", value))
        elif name == "naccelerators":
            pairs.append(("gres", f"gpu:{value}"))
        elif name == "proc":
            pairs.append(("constraint", value))
        elif name not in ("place", "naccesspolicy"):
            say(f"sbatch: #PBS -l {name} has no effect")  # also in Slurm, without a message
    return pairs


def _pbs_nodes(text: str) -> "Pairs":
    """Translate `2:ppn=4`, or `n1:ppn=4+n2` with names of nodes; numbers are added up."""
    chunks = [chunk.split(":") for chunk in text.split("+")]
    numbers = [chunk[0] for chunk in chunks if chunk[0].isascii() and chunk[0].isdigit()]
    names = [chunk[0] for chunk in chunks if chunk[0] not in numbers]
    pairs: Pairs = [("nodelist", ",".join(names))] if names else []
    if len(numbers) == len(chunks) == 1:
        pairs.append(("nodes", numbers[0]))
    elif numbers:
        # Longer numbers are refused like these, as too many nodes.
        pairs.append(("nodes", str(len(names) + sum(int(number[:9]) for number in numbers))))
    for word in [word for chunk in chunks for word in chunk[1:]]:
        name, equals, value = word.partition("=")
        if name in ("ppn", "mpiprocs"):
            pairs.append(("ntasks-per-node", value))
        elif name == "ncpus":
            pairs.append(("mincpus", value))
        elif name in ("gpus", "ngpus"):
            pairs.append(("gpus-per-node", value))
        elif name == "mem":
            pairs.append(("mem", _pbs_size(value)))
        elif not equals:
            pairs.append(("constraint", name))
        else:
            raise OptionError(f"#PBS -l nodes=...:{word} is not implemented yet", 1)
    return pairs


def _pbs_size(text: str) -> str:
    """Return `4gb`, `4096b` or `100mw` in the form of --mem."""
    lowered = text.lower()
    if lowered.endswith(("b", "w")):
        factor = 8 if lowered.endswith("w") else 1
        lowered = lowered[:-1]
        suffix = lowered[-1:] if lowered[-1:].isalpha() else ""
        digits = lowered[: len(lowered) - len(suffix)]
        if digits.isdecimal():
            amount = int(digits) * factor
            return f"{amount}{suffix}" if suffix else f"{-(-amount >> 10)}k"
    return text


# LSF --------------------------------------------------------------------------------------------

_BSUB_TEXTS = {
    "J": "job-name", "q": "partition", "o": "output", "oo": "output", "e": "error",
    "eo": "error", "i": "input", "P": "account", "cwd": "chdir", "u": "mail-user",
    "n": "ntasks", "b": "begin", "m": "nodelist", "G": "account",
}  # fmt: skip


def _bsub(words: "list[str]") -> "Pairs":
    """Translate one line of #BSUB.

    Raises:
        OptionError: an option has no counterpart here.
    """
    pairs: Pairs = []
    for name, value in _letter_pairs(words, "#BSUB", "xrHBNK"):
        if name in _BSUB_TEXTS:
            if name == "J" and "[" in value:
                value, _, array = value.rstrip("]").partition("[")
                pairs.append(("array", array))
            pairs.append((_BSUB_TEXTS[name], value.replace("%J", "%j").replace("%I", "%a")))
        elif name == "W":
            hours, colon, minutes = value.partition(":")
            pairs.append(("time", f"{hours}:{minutes}:00" if colon else hours))
        elif name == "M":
            pairs.append(("mem-per-cpu", _bsub_size(value)))
        elif name == "x":
            pairs.append(("exclusive", None))
        elif name == "H":
            pairs.append(("hold", None))
        elif name == "r":
            pairs.append(("requeue", None))
        elif name in ("B", "N"):
            pairs.append(("mail-type", "BEGIN" if name == "B" else "END"))
        else:
            say(f"sbatch: invalid option -- '{name[0]}'")
            raise OptionError("Unrecognized command line parameter ?", 1)
    return pairs


def _bsub_size(text: str) -> str:
    """Return a memory limit, in KiB unless it has a suffix, in the form of --mem."""
    return f"{text}K" if text.isdecimal() else text.lower().removesuffix("b")

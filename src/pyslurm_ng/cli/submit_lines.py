"""pyslurm-ng submit: put many jobs into the queue by one command, over one connection.

Each line of the input is one job. Requests are sent without waiting for the answers to earlier
ones, and the id of each job is printed in the order of the lines once the job is on disk.
"""

import os
import sys

from pyslurm_ng.cli.command import connect, read_conf, say
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.sbatch import ScriptError, find_script, prepare, wrapped
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.option_state import HelpRequested
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from pyslurm_ng.wire.client import Client

MOST_AWAITED = 256
"""The most requests without an answer; the controller takes about as many from one connection."""
MOST_AWAITED_BYTES = 8 << 20
MOST_LINE_BYTES = 16 << 20
NO_JOB = "-"
"""What is printed in place of an id for a line that was refused."""
_MOST_FAILURES = 5
_MOST_KEPT = 1000
_ELSEWHERE = ("clusters", "cluster", "gid", "test-only", "uid", "wait")
"""Options of sbatch that are about a single submission."""
_TEXTS = ("autocomplete", "help", "usage", "version")


class LineError(Exception):
    """A line that cannot become a job."""


def main(source: str, argv: "list[str]", are_commands: bool) -> int:
    """Submit a job for each line; return 0 if all were accepted.

    Args:
        source: a file's path, `-` for stdin.
        argv: options of sbatch for all jobs.
        are_commands: each line is a command of the shell; otherwise it is what sbatch takes.
    """
    try:
        requests = Requests(argv, are_commands)
        fd = 0 if source == "-" else os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        os.read(fd, 0)  # a directory can be opened, but not read
    except OptionError as problem:
        return _fail(problem.text.split("\n")[0])
    except OSError as problem:
        return _fail(f"--from {source}: {problem.strerror}")
    client = connect(read_conf("sbatch"))
    sender = Sender(client, "stdin" if source == "-" else source)
    try:
        for number, line in _lines(fd, sender):
            if line.lstrip()[:1] in (b"", b"#") and not line.lstrip().startswith(b"#SBATCH"):
                continue
            try:
                sender.send(number, requests.of(line))
            except LineError as problem:
                sender.refuse(number, str(problem))
        sender.finish()
    except LineError as problem:
        sender.finish()
        return _fail(str(problem))
    except SlurmError as problem:
        sys.stdout.flush()
        say(f"pyslurm-ng: error: {problem.text}")
        return _fail(sender.left_over())
    finally:
        client.close()
        if fd:
            os.close(fd)
    return 1 if sender.refused else 0


def _fail(text: str) -> int:
    say(f"pyslurm-ng: error: {text}")
    return 1


def _lines(fd: int, sender: "Sender") -> "Iterator[tuple[int, bytes]]":
    """Yield (number, line); print ids while the next line is not there yet.

    So a program can write a line and read its id before it writes the next one.

    Raises:
        LineError: a line is too long.
    """
    from select import select

    waiting = b""
    number = 0
    part = b"first"
    while part:
        while sender.awaits and not select((fd,), (), (), 0)[0]:
            sender.take()
        if not select((fd,), (), (), 0)[0]:
            sys.stdout.flush()
        part = os.read(fd, 1 << 20)
        *whole, waiting = (waiting + part).split(b"\n")
        for line in whole:
            number += 1
            yield number, line
        if len(waiting) > MOST_LINE_BYTES:
            raise LineError(
                f"line {number + 1}: longer than {MOST_LINE_BYTES} bytes, no more are allowed"
            )
    if waiting:
        yield number + 1, waiting


# What a line asks for ---------------------------------------------------------------------------


class Requests:
    """Makes the fields of `SubmitJob` of a line.

    What the same options make of the same script is kept: a line then costs some microseconds, as
    long as only its command or the script's arguments are new.
    """

    def __init__(self, argv: "list[str]", are_commands: bool) -> None:
        """Read the options for all jobs.

        Raises:
            OptionError: they cannot be used.
        """
        pairs, operands = Options("sbatch").split_words(argv)
        if operands:
            raise OptionError(f"{operands[0]}: only options of sbatch are allowed beside --from")
        _allow(name for name, _ in pairs)
        self._argv = argv
        self._are_commands = are_commands
        self._kept: dict[Any, dict[str, Any]] = {}

    def of(self, line: bytes) -> "dict[str, Any]":
        """Return the fields for a line.

        Raises:
            LineError: it is not understood, or sbatch would refuse it.
        """
        options = Options("sbatch")
        try:
            if self._are_commands:
                return self._of_command(options, os.fsdecode(line))
            if line.lstrip()[:1] == b"{":
                words, operands, text = _of_object(line)
                return self._of_words(options, words, operands, text)
            return self._of_words(options, _shell_words(os.fsdecode(line)), [], None)
        except OptionError as problem:
            # The first line says it all; getopt's second one names sbatch's help.
            raise LineError("; ".join([*options.lines, problem.text.split("\n")[0]])) from None
        except ScriptError as problem:
            raise LineError(str(problem).replace("\n", " ")) from None
        except HelpRequested:
            raise LineError("help is not allowed here") from None

    def _of_command(self, options: Options, command: str) -> "dict[str, Any]":
        # A line that begins as a comment may be a directive.
        can_keep = command.lstrip()[:1] != "#"
        kept = self._kept.get(None) if can_keep else None
        if kept is None:
            argv = [*self._argv, f"--wrap={command}"]
            fields = self._prepared(options, argv, [], None)
            if can_keep and options.filters is None:
                self._kept[None] = fields
            return fields
        request = dict(kept["request"])
        request["submit_line"] = submission.plain_text(
            " ".join(["sbatch", *self._argv, f"--wrap={command}"])
        )
        return {**kept, "request": request, "script": wrapped(command)}

    def _of_words(
        self, options: Options, words: "list[str]", operands: "list[str]", text: "bytes | None"
    ) -> "dict[str, Any]":
        """Return the fields for what sbatch would have on its command line.

        Args:
            words: options, and operands unless they are in `operands`.
        """
        key = None
        if text is None and ":" not in words:
            pairs, rest = options.split_words(words)
            rest = rest + operands
            key = _key_of_script(pairs, rest)
            kept = self._kept.get(key) if key else None
            if kept is not None:
                return _with_arguments(kept, [*self._argv, *words, *operands], rest[1:])
        fields = self._prepared(options, [*self._argv, *words], operands, text)
        if key and options.filters is None and "components" not in fields:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = fields
        return fields

    def _prepared(
        self, options: Options, argv: "list[str]", operands: "list[str]", text: "bytes | None"
    ) -> "dict[str, Any]":
        pairs, rest = options.split_words(argv)
        for name, _ in pairs:
            if name in _TEXTS:
                raise OptionError(f"--{name} is not allowed here")
        if not rest and not operands and text is None and "wrap" not in dict(pairs):
            raise ScriptError("a script or --wrap is missing")
        fields, _ = prepare(options, pairs, rest + operands, [*argv, *operands], text)
        _allow(options.settings)
        return fields


def _allow(names: "Iterable[str]") -> None:
    """Refuse options that make no sense for many jobs; raises OptionError."""
    for name in names:
        if name in _ELSEWHERE:
            raise OptionError(f"--{name} is for single submissions: it is not allowed here")


def _shell_words(line: str) -> "list[str]":
    from shlex import split

    try:
        return split(line)
    except ValueError as problem:
        raise LineError(f"{problem}".replace("No closing", "no closing")) from None


def _key_of_script(
    pairs: "list[tuple[str, str | None]]", operands: "list[str]"
) -> "tuple[Any, ...] | None":
    """Return what makes a request for a script the same but for its arguments."""
    if not operands:
        return None
    path = find_script(operands[0])
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return None
    return (*pairs, path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _with_arguments(
    kept: "dict[str, Any]", argv: "list[str]", arguments: "list[str]"
) -> "dict[str, Any]":
    request = dict(kept["request"])
    request["submit_line"] = submission.plain_text(" ".join(["sbatch", *argv]))
    request.pop("argv", None)
    if arguments:
        request["argv"] = [submission.plain_text(word) for word in arguments]
    return {**kept, "request": request}


def _of_object(line: bytes) -> "tuple[list[str], list[str], bytes | None]":
    """Return (options, operands, script) of a JSON object.

    Its keys are `script` (a path), `text` (a script itself) or `wrap` (a command), `arguments`
    (an array of strings), and sbatch's options by their long names.
    """
    from json import loads

    try:
        fields = loads(line)
    except ValueError as problem:
        raise LineError(f"no JSON object: {problem}") from None
    except RecursionError:
        raise LineError("no JSON object: it is nested too deeply") from None
    ways = [name for name in ("script", "text", "wrap") if name in fields]
    if len(ways) != 1 or not isinstance(fields[ways[0]], str):
        raise LineError("one of the strings script, text and wrap is needed")
    arguments = fields.pop("arguments", [])
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise LineError("arguments: an array of strings is allowed")
    text = os.fsencode(_sendable(fields.pop("text"))) if "text" in fields else None
    operands = [fields.pop("script")] if "script" in fields else []
    if arguments and text is not None:
        raise LineError("arguments: they need script, not text")
    words = []
    for name, value in fields.items():
        if not name.replace("-", "").isalnum() or not name.isascii() or name[:1] == "-":
            raise LineError(f"{name!r}: options of sbatch by their long names are allowed")
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, list) and all(isinstance(word, str | int) for word in value):
            words.append(f"--{name}=" + ",".join(map(str, value)))
        elif isinstance(value, str | int | float) and value is not False:
            words.append(f"--{name}={value}")
        elif value is not False and value is not None:
            raise LineError(f"{name}: a string, a number, true, or an array of them is allowed")
    return [_sendable(word) for word in words], operands + arguments, text


def _sendable(text: str) -> str:
    r"""Return a text; JSON's \ud800 and the like are no characters.

    Raises:
        LineError: it has such.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LineError("half of a surrogate pair is no character") from None
    return text


# The connection ---------------------------------------------------------------------------------


class Sender:
    """Sends requests, repeats those whose answers were lost, and prints ids in order.

    A request that is sent again has the id of the first attempt, so the controller makes no second
    job of it.
    """

    def __init__(self, client: "Client", source: str) -> None:
        self.refused = 0
        self._client = client
        self._source = source
        self._awaited: dict[int, tuple[int, int, dict[str, Any]]] = {}
        self._again: list[tuple[int, int, dict[str, Any]]] = []
        self._bytes = 0
        self._last_sequence = 0
        self._failures = 0
        self._pause_s = 0
        self._told_full = False
        self._answers: dict[int, str] = {}
        self._sent = 0
        self._printed = 0

    @property
    def awaits(self) -> bool:
        """Return whether answers are missing."""
        return bool(self._awaited or self._again)

    def send(self, number: int, fields: "dict[str, Any]") -> None:
        """Send the request of a line; wait for earlier ones while too many have no answer.

        Raises:
            SlurmError: the controller cannot be reached.
        """
        while (
            self._again or len(self._awaited) >= MOST_AWAITED or self._bytes >= MOST_AWAITED_BYTES
        ):
            self.take()
        index = self._sent
        self._sent += 1
        fields["request_id"] = os.urandom(16)
        self._begin((index, number, fields))

    def refuse(self, number: int, text: str) -> None:
        """Say why a line is no job."""
        index = self._sent
        self._sent += 1
        self._refused(index, number, text)

    def finish(self) -> None:
        """Wait for all answers."""
        while self.awaits:
            self.take()
        sys.stdout.flush()

    def left_over(self) -> str:
        """Return what to tell when the connection is lost for good."""
        lost = sorted(number for _, number, _ in [*self._awaited.values(), *self._again])
        if not lost:
            return "the lines that follow were not submitted"
        return (
            f"{self._source}: it is not known whether the jobs of {len(lost)} lines from line "
            f"{lost[0]} on were accepted; none were submitted of lines after line {lost[-1]}"
        )

    def take(self) -> None:
        """Take one answer, if one is awaited.

        Raises:
            SlurmError: the controller cannot be reached.
        """
        if not self._awaited:
            self._send_again()
            return
        try:
            sequence, reply, _ = self._client.receive(self._client.timeout_s)
        except SlurmError as problem:
            if problem.sequence in self._awaited:
                self._refusal(problem)
            else:
                self._reconnect(problem)
            return
        self._failures = self._pause_s = 0
        request = self._awaited.pop(sequence, None)
        if request is None:
            return
        index, _, fields = request
        self._bytes -= _size(fields)
        for note in reply.get("notes", ()):
            say(f"sbatch: {note}")
        self._answer(index, str(reply["job_id"]))

    def _begin(self, *requests: "tuple[int, int, dict[str, Any]]") -> None:
        """Send requests, and those before them once more if the connection is a new one."""
        waiting = list(requests)
        try:
            while waiting:
                sequence = self._client.begin("SubmitJob", waiting[0][2])
                if sequence <= self._last_sequence:
                    # A new connection: answers to what went before do not come any more.
                    self._count_failure(SlurmError(-1, "slurmctld ends each connection"))
                    waiting += self._awaited.values()
                    self._awaited.clear()
                    self._bytes = 0
                self._last_sequence = sequence
                self._awaited[sequence] = waiting.pop(0)
                self._bytes += _size(self._awaited[sequence][2])
        except SlurmError:
            self._again += waiting
            raise

    def _reconnect(self, problem: SlurmError) -> None:
        self._count_failure(problem)
        self._client.close()
        lost = list(self._awaited.values())
        self._awaited.clear()
        self._bytes = self._last_sequence = 0
        self._begin(*lost)

    def _count_failure(self, problem: SlurmError) -> None:
        """Give up when the connection is lost again and again without any answer."""
        self._failures += 1
        if self._failures > _MOST_FAILURES:
            raise problem

    def _refusal(self, problem: SlurmError) -> None:
        from pyslurm_ng.base.error_numbers import Errno

        index, number, fields = self._awaited.pop(problem.sequence)
        self._bytes -= _size(fields)
        if problem.code == Errno.EAGAIN:
            self._again.append((index, number, fields))
            return
        lines = [submission.by_option(line) for line in problem.text.split("\n")]
        self._refused(index, number, "; ".join(lines))

    def _send_again(self) -> None:
        """Wait until the controller may have room for more jobs, and send those refused."""
        from time import sleep

        if not self._again:
            return
        if not self._told_full:
            self._told_full = True
            say("pyslurm-ng: the controller has no room for more jobs; waiting")
        sys.stdout.flush()
        self._pause_s = min(self._pause_s + 1, 15)
        sleep(self._pause_s)
        again, self._again = self._again, []
        for _, _, fields in again:
            # The refused attempt changed nothing in the controller; a new attempt needs a new id.
            fields["request_id"] = os.urandom(16)
        self._begin(*again)

    def _refused(self, index: int, number: int, text: str) -> None:
        self.refused += 1
        say(f"pyslurm-ng: error: {self._source}: line {number}: {text}")
        self._answer(index, NO_JOB)

    def _answer(self, index: int, text: str) -> None:
        self._answers[index] = text
        while self._printed in self._answers:
            sys.stdout.write(self._answers.pop(self._printed) + "\n")
            self._printed += 1


def _size(fields: "dict[str, Any]") -> int:
    return len(fields["script"]) + len(fields["environment"])

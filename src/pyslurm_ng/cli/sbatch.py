"""sbatch: put a batch script into the queue."""

import os
import sys

from pyslurm_ng.base.numbers import (
    JOB_COMPLETED,
    JOB_FLAG_COMPLETING,
    JOB_FLAG_REQUEUED,
    SECOND_US,
    SHOW_DETAIL,
)
from pyslurm_ng.cli.command import connect, read_conf, say
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.directives import apply_directives
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

NO_SCRIPT_LIMIT = 64 << 20
"""The most that is read; the controller's limit is max_script_size."""
MOST_TRIES = 16
"""With pauses of 1 to 15 s between them: two minutes in all, as in Slurm 22.05."""
_LEAD = "Batch job submission failed"
_TOO_LONG = "Pathname of a file, directory or other parameter too long"
_OF_THE_WHOLE = ("wrap", "parsable", "quiet", "test-only", "wait", "ignore-pbs")


class ScriptError(Exception):
    """A script that cannot be submitted; each line of the text is an error line."""


def main(argv: "list[str]") -> int:
    """Submit; return the exit code."""
    options = Options("sbatch")
    try:
        return submission.outcome(options, lambda: _run(options, argv))
    except ScriptError as problem:
        code = submission.error_code("sbatch")
        for line in str(problem).split("\n"):
            say(f"sbatch: error: {line}")
        return code


def _run(options: Options, argv: "list[str]") -> int:
    pairs, operands = options.split_words(argv)
    if submission.announce(options, pairs):
        return 0
    if any(value == "help" for _, value in pairs):
        _check(options, pairs)
    fields, conf = prepare(options, pairs, operands, argv)
    submission.become(options)
    conf = submission.choose_cluster(options, conf)
    client = connect(conf)
    try:
        return _submit(options, client, conf, fields)
    except SlurmError as problem:
        return submission.refusal("sbatch", problem, _LEAD)


def prepare(
    options: Options,
    pairs: "list[tuple[str, str | None]]",
    operands: "list[str]",
    argv: "list[str]",
    text: "bytes | None" = None,
) -> "tuple[dict[str, Any], dict[str, str]]":
    """Return the fields of `SubmitJob`, and the keys of slurm.conf.

    Args:
        options: takes the options of script, environment and command line.
        pairs: the options of the command line.
        operands: the words after them: the script and its arguments, or further components.
        argv: the whole command line, for the record.
        text: the script's content, where it is no file.

    Raises:
        OptionError: an option cannot be used.
        ScriptError: the script cannot.
    """
    groups: list[list[tuple[str, str | None]]] = []
    if operands[:1] == [":"]:
        from pyslurm_ng.cli.submit.het_options import split_groups

        groups, operands = split_groups(options, operands)
        # Options about the submission itself may follow any component.
        pairs = pairs + [pair for group in groups for pair in group if pair[0] in _OF_THE_WHOLE]
    settings = {name: value or "" for name, value in pairs}
    environment = dict(os.environ)
    ignore_pbs = "ignore-pbs" in settings or environment.get("SBATCH_IGNORE_PBS", "0") != "0"
    shown = operands[0] if operands else "stdin"
    conf = submission.begin(options, operands, read_conf, submission.CONF_KEYS)
    try:
        script, path = _script(settings.get("wrap"), operands, text)
        directives = apply_directives(options, script, shown, ignore_pbs)
    except (ScriptError, OptionError):
        _check(options, pairs)  # what is wrong with the command line is told first
        raise
    options.apply_environment(environment)
    options.apply_all(pairs, COMMAND_LINE)
    further: list[Options] = []
    if directives or groups:
        from pyslurm_ng.cli.submit.het_options import further_components

        # A command line without `:` is about each component that the script has.
        groups = groups or [pairs] * len(directives)
        further = further_components(options, directives, groups, environment)
    conf = conf or read_conf("sbatch", *submission.CONF_KEYS)
    for component in (options, *further):
        submission.finish(component, conf)
        if component is not options:
            component.request.setdefault("name", options.request["name"])
        _describe(component, argv, path, operands, conf)
    fields: dict[str, Any] = {
        "request": options.request,
        "script": script,
        "environment": submission.job_environment(options, os.environb),
    }
    if further:
        fields["components"] = [component.request for component in further]
    return fields, conf


def _check(options: Options, pairs: "list[tuple[str, str | None]]") -> None:
    """Read the options of the command line alone, for what they say without a script.

    Raises:
        HelpRequested: one of them asks for help.
        OptionError: one of them has a wrong value.
    """
    alone = Options("sbatch")
    try:
        alone.apply_all(pairs, COMMAND_LINE)
    except OptionError:
        options.lines = alone.lines
        raise
    alone.keep_quiet()


# The script -----------------------------------------------------------------------------------


def wrapped(command: str) -> bytes:
    """Return the script of --wrap."""
    text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + command + "\n"
    return os.fsencode(text)


def _script(wrap: "str | None", operands: "list[str]", text: "bytes | None") -> "tuple[bytes, str]":
    """Return the script and its path, which is "" when it comes from stdin or --wrap.

    Raises:
        ScriptError: it is missing, empty or no script.
    """
    if wrap is not None:
        if operands:
            raise ScriptError("Script arguments not permitted with --wrap option")
        return wrapped(wrap), ""
    path = find_script(operands[0]) if operands and text is None else ""
    script = _read(path, operands[0] if operands else "") if text is None else text
    if not script:
        raise ScriptError("Batch script is empty!")
    if script.isspace():
        raise ScriptError("Batch script contains only whitespace!")
    if not script.startswith(b"#!"):
        raise ScriptError(
            "This does not look like a batch script.  The first\n"
            "line must start with #! followed by the path to an interpreter.\n"
            "For instance: #!/bin/sh"
        )
    if b"\0" in script:
        raise ScriptError(
            "The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'."
        )
    if b"\r\n" in script:
        raise ScriptError(
            "Batch script contains DOS line breaks (\\r\\n)\n"
            "instead of expected UNIX line breaks (\\n)."
        )
    return script, path


def find_script(name: str) -> str:
    """Return the full path of a script, in this directory or in PATH."""
    own_path = os.path.normpath(os.path.join(current_directory(), name))
    if "/" in name or os.path.exists(name):
        return own_path
    for directory in os.environ.get("PATH", "").split(":"):
        path = f"{directory}/{name}"
        if directory and os.path.isfile(path) and os.access(path, os.R_OK):
            return path
    return own_path


def _read(path: str, name: str) -> bytes:
    try:
        if not path:
            return _at_most(sys.stdin.fileno()) if sys.stdin is not None else b""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        raise ScriptError(f"Unable to open file {name}") from None
    try:
        return _at_most(fd)
    finally:
        os.close(fd)


def _at_most(fd: int) -> bytes:
    """Return the content of a file; b"" for a directory."""
    parts = []
    size = 0
    while size <= NO_SCRIPT_LIMIT:
        try:
            part = os.read(fd, 1 << 20)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
    if size > NO_SCRIPT_LIMIT:
        raise ScriptError(f"{_LEAD}: {_TOO_LONG}")
    return b"".join(parts)


# The request ----------------------------------------------------------------------------------


def _describe(
    options: Options, argv: "list[str]", path: str, operands: "list[str]", conf: "dict[str, str]"
) -> None:
    """Fill in name, script, arguments and origin."""
    request = options.request
    if "name" not in request:
        wrapped = "wrap" in options.settings
        request["name"] = path.rpartition("/")[2] or ("wrap" if wrapped else "sbatch")
    request["command"] = path
    for stream in ("std_in", "std_out", "std_err"):
        if request.get(stream, "").lower() == "none":
            request[stream] = "/dev/null"  # so that no listing shows a file of this name
    submission.describe_origin(options, argv)
    if operands[1:]:
        request["argv"] = operands[1:]
    request["rlimits"] = submission.limits(options.settings.get("propagate", ""), conf)
    submission.say_propagated(options, request["rlimits"])


def _submit(
    options: Options, client: "Client", conf: "dict[str, str]", fields: "dict[str, Any]"
) -> int:
    quiet = "quiet" in options.settings
    if "test-only" in options.settings:
        return _test(client, [options.request, *fields.get("components", ())], quiet)
    reply = _change(client, fields)
    job_id = reply["job_id"]
    if options.filters is not None:
        options.filters.post_submit(job_id)
    for note in reply.get("notes", ()):
        say(f"sbatch: {note}")
    is_other = bool(options.settings.get("clusters"))
    cluster = conf.get("ClusterName", "")
    if quiet:
        pass
    elif "parsable" in options.settings:
        print(f"{job_id};{cluster}" if is_other else job_id)
    else:
        print(f"Submitted batch job {job_id}" + (f" on cluster {cluster}" if is_other else ""))
    if "wait" in options.settings:
        sys.stdout.flush()
        return _wait(client, job_id)
    return 0


def _change(client: "Client", fields: "dict[str, Any]") -> "dict[str, Any]":
    """Send the submission; wait and try again while the controller has no room for more jobs."""
    tries = 0
    while True:
        try:
            return client.change("SubmitJob", fields)
        except SlurmError as problem:
            from pyslurm_ng.base.error_numbers import Errno

            tries += 1
            if problem.code != Errno.EAGAIN or tries >= MOST_TRIES:
                raise
        from time import sleep

        if tries == 1:
            say("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying")
        # The refused attempt changed nothing in the controller; a new attempt needs a new id.
        fields.pop("request_id", None)
        sleep(tries)


def _test(client: "Client", requests: "list[dict[str, Any]]", quiet: bool) -> int:
    """`--test-only`: print when and where the job would start, in one line for all components."""
    answers = []
    try:
        for request in requests:
            answers.append(client.call("TestJob", {"request": request}))
    except SlurmError as problem:
        return submission.refusal("sbatch", problem, "allocation failure", is_plain=True)
    if quiet:
        return 0
    from pyslurm_ng.base.dates import format_date

    for answer in answers:
        for note in answer.get("notes", ()):
            say(f"sbatch: {note}")
    first = answers[0]
    when = format_date(max(answer["start_us"] for answer in answers) // SECOND_US)
    cpus = sum(answer["cpus"] for answer in answers)
    where = f"nodes {first['nodes']} in partition {first['partition']}"
    if len(answers) > 1:
        from pyslurm_ng.cli.submit.option_names import folded

        where = folded(",".join(answer["nodes"] for answer in answers))
    say(f"sbatch: Job {first['job_id']} to start at {when} using {cpus} processors on {where}")
    return 0


def _wait(client: "Client", job_id: int) -> int:
    """Wait for the end of a job, or of all tasks of an array; return the worst exit code."""
    from time import sleep

    from pyslurm_ng.kernels.records import project

    pause_s = 0.02
    request = {"filter": {"jobs": [str(job_id)], "all_states": True}, "flags": SHOW_DETAIL}
    while True:
        reply = client.call("ShowJobs", request)
        names = reply["fields"]
        indexes = [names.index(name) for name in ("state", "flags", "exit_code")]
        rows = project(reply["records"], indexes)
        if all(state >= JOB_COMPLETED and not flags & (JOB_FLAG_COMPLETING | JOB_FLAG_REQUEUED)
               for state, flags, _ in rows):  # fmt: skip
            break
        sleep(pause_s)
        pause_s = min(pause_s * 1.5, 1.0)
    codes = [1 if status & 0x7F else status >> 8 & 0xFF for _, _, status in rows]
    states_failed = [1 for state, _, status in rows if state > JOB_COMPLETED and not status]
    return max([0, *codes, *states_failed])

"""scancel: end or signal jobs, array tasks and steps; any number is one command."""

import os
import sys

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.numbers import (
    CANCEL_BATCH,
    CANCEL_CRON,
    CANCEL_FULL,
    CANCEL_HURRY,
    CANCEL_VERBOSE,
    SHOW_DETAIL,
)
from pyslurm_ng.base.state_names import job_state, parse_job_state
from pyslurm_ng.cli.command import (
    Table,
    fail,
    is_person,
    printable,
    read_conf,
    say,
    split_list,
    uid_of,
)
from pyslurm_ng.cli.option_words import NONE, REQUIRED
from pyslurm_ng.cli.program import Program, on_clients
from pyslurm_ng.cli.request_parts import change_all, show_all
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.program import OptionValues
    from pyslurm_ng.wire.client import Client

OPTIONS = (
    ("account", "A", REQUIRED),
    ("admin-comment", "", REQUIRED),
    ("autocomplete", "", REQUIRED),
    ("batch", "b", NONE),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    ("cron", "c", NONE),
    ("ctld", "", NONE),
    ("full", "f", NONE),
    ("help", "", NONE),
    ("hurry", "H", NONE),
    ("interactive", "i", NONE),
    ("jobname", "n", REQUIRED),
    ("me", "", NONE),
    ("name", "n", REQUIRED),
    ("nodelist", "w", REQUIRED),
    ("partition", "p", REQUIRED),
    ("qos", "q", REQUIRED),
    ("quiet", "Q", NONE),
    ("reservation", "R", REQUIRED),
    ("sibling", "", REQUIRED),
    ("signal", "s", REQUIRED),
    ("state", "t", REQUIRED),
    ("usage", "", NONE),
    ("user", "u", REQUIRED),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
    ("wckey", "", REQUIRED),
)
_NOT_FEDERATED = 2239  # ESLURM_JOB_NOT_FEDERATED; 22.05's exit code is its last byte, 191
_ENVIRONMENT = (
    ("SCANCEL_ACCOUNT", "account"),
    ("SCANCEL_BATCH", "batch"),
    ("SCANCEL_CRON", "cron"),
    ("SCANCEL_CTLD", "ctld"),
    ("SCANCEL_FULL", "full"),
    ("SCANCEL_HURRY", "hurry"),
    ("SCANCEL_INTERACTIVE", "interactive"),
    ("SCANCEL_NAME", "name"),
    ("SCANCEL_PARTITION", "partition"),
    ("SCANCEL_QOS", "qos"),
    ("SCANCEL_STATE", "state"),
    ("SCANCEL_USER", "user"),
    ("SCANCEL_VERBOSE", "verbose"),
    ("SCANCEL_WCKEY", "wckey"),
    ("SLURM_CLUSTERS", "clusters"),
)
USAGE = """\
Usage: scancel [-A account] [--batch] [--full] [--interactive] [-n job_name]
               [-p partition] [-Q] [-q qos] [-R reservation] [-s signal | integer]
               [-t PENDING | RUNNING | SUSPENDED] [--usage] [-u user_name]
               [--hurry] [-V] [-v] [-w hosts...] [--wckey=wckey] [--me] [--ctld]
               [job_id[_array_id][.step_id]]"""
PROGRAM = Program(
    "scancel",
    OPTIONS,
    USAGE,
    operands="[job_id[_array_id][.step_id]]",
    same={"cluster": "clusters", "jobname": "name"},
    environment=_ENVIRONMENT,
)
# Options that choose jobs, with the wire's filter fields and the words of "no match" messages.
_FILTERS = (
    ("account", "accounts", "account"),
    ("name", "names", "job_name"),
    ("partition", "partitions", "partition"),
    ("qos", "qos", "qos"),
    ("reservation", "reservations", "reservation"),
    ("wckey", "wckeys", "wckey"),
    ("state", "states", "state"),
    ("user", "uids", "user_name"),
    ("nodelist", "nodes", "nodelist"),
)


def main(argv: "list[str]") -> int:
    """Run scancel; return its exit code."""
    options, operands = PROGRAM.read(argv)
    _read_switches(options, {name for name, _ in options.pairs})
    ids = [text for word in operands for text in split_job_ids(word) or [word]]
    for text in ids:
        try:
            parse_job_id(text)
        except JobIdError:
            fail(f"scancel: error: Invalid job id {text}")
    job_filter = _filter(options)
    if not ids and not job_filter:
        fail("scancel: error: No job identification provided")
    if ids:
        job_filter["jobs"] = ids
    return _run(options, job_filter)


_SWITCHES = ("batch", "cron", "ctld", "full", "hurry", "interactive", "verbose")


def _read_switches(options: "dict[str, str]", on_line: "set[str]") -> None:
    """Take switches out that a variable does not set: t or true does, and f or false does not."""
    for variable, name in _ENVIRONMENT:
        value = options.get(name, "").lower()
        if name not in _SWITCHES or name not in options or name in on_line:
            continue
        if value not in ("t", "true"):
            del options[name]
        if value not in ("t", "true", "f", "false"):
            say(f"scancel: error: Unrecognized {variable} value: {os.environ[variable]}")


def _filter(options: "OptionValues") -> "dict[str, Any]":
    job_filter: dict[str, Any] = {}
    for option, field, _ in _FILTERS:
        value = options.get(option)
        if value is None:
            continue
        if option == "state":
            is_variable = not options.times("state")
            job_filter["states"] = [_state(word, is_variable) for word in value.split(",")]
        elif option == "user":
            uid = uid_of(value)
            if uid < 0 or not is_person(uid):
                fail(f"scancel: error: Invalid user name: {value}")
            job_filter["uids"] = [uid]
        elif option == "nodelist":
            job_filter["nodes"] = value
        else:
            job_filter[field] = split_list(value)
    if "me" in options:
        job_filter["uids"] = [os.getuid()]
        options.setdefault("user", str(os.getuid()))
    return job_filter


def _state(word: str, is_variable: bool) -> int:
    state = parse_job_state(word)
    if state is None or not 0 <= state[0] <= 2:
        lead = "Unrecognized SCANCEL_STATE value" if is_variable else "Invalid job state specified"
        fail(f"{lead}: {word}\nValid job states are PENDING, RUNNING, and SUSPENDED")
    return state[0]


def _run(options: "OptionValues", job_filter: "dict[str, Any]") -> int:
    signal = 0
    if "signal" in options:
        from pyslurm_ng.base.signal_names import parse_signal

        signal = parse_signal(options["signal"])
        if not signal:
            fail(f"Unknown job signal: {options['signal']}")
    flags = CANCEL_BATCH if "batch" in options else 0
    flags |= CANCEL_FULL if "full" in options else 0
    flags |= CANCEL_CRON if "cron" in options else 0
    flags |= CANCEL_HURRY if "hurry" in options else 0
    verbose = "verbose" in options and "quiet" not in options
    flags |= CANCEL_VERBOSE if verbose else 0
    confs = PROGRAM.clusters(options, read_conf("scancel"))
    return on_clients(
        confs, lambda client, _: _cancel(client, options, dict(job_filter), signal, flags)
    )()


def _cancel(
    client: "Client",
    options: "dict[str, str]",
    job_filter: "dict[str, Any]",
    signal: int,
    flags: int,
) -> int:
    """Cancel or signal jobs of one cluster; return the exit code."""
    verbose = bool(flags & CANCEL_VERBOSE)
    try:
        code = 0
        if "sibling" in options:
            return _no_siblings(client, options, job_filter)
        if "admin-comment" in options:
            code = _comment(client, options["admin-comment"], job_filter)
            if code:
                return code
        if "interactive" in options:
            job_filter, absent = _confirmed(client, job_filter)
            code = _report_errors(absent, options, verbose)
            if not job_filter["jobs"]:
                return code
        reply = _asked(client, job_filter, signal, flags)
        if any("." in text for text, _, _ in reply["errors"]):
            reply["errors"] = _without_queued(client, reply["errors"], signal)
    except SlurmError as error:
        return _failed(error, job_filter)
    return _report(reply, options, signal, flags, verbose, job_filter) or code


def _no_siblings(client: "Client", options: "dict[str, str]", job_filter: "dict[str, Any]") -> int:
    """Say of each job that it is none of a federation; return the exit code."""
    ids = [str(row[0]) for row in _unfinished(client, job_filter)]
    for text in ids if "quiet" not in options else ():
        say(f"scancel: error: Kill job error on job id {text}: Not a valid federated job")
    return _NOT_FEDERATED & 0xFF if ids else 0


def _comment(client: "Client", text: str, job_filter: "dict[str, Any]") -> int:
    """Give the jobs that are about to end an administrator's comment; return the exit code."""
    jobs = [str(row[0]) for row in _unfinished(client, job_filter)]
    if not jobs:
        return 0

    def ask(jobs: "list[str]", progress: "dict[str, int]") -> "dict[str, Any]":
        settings = {"admincomment": text}
        return client.change("UpdateJob", {"settings": settings, "jobs": jobs, **progress})

    reply = change_all(jobs, ask)
    for job, _, words in reply["errors"]:
        say(f"scancel: error: Kill job error on job id {job}: {words}")
    return reply["errors"][0][1] & 0xFF if reply["errors"] else 0


def _asked(
    client: "Client", job_filter: "dict[str, Any]", signal: int, flags: int
) -> "dict[str, Any]":
    """Ask for all that is to be cancelled."""

    def ask(jobs: "list[str]", progress: "dict[str, int]") -> "dict[str, Any]":
        request = {"filter": {**job_filter, "jobs": jobs}, "signal": signal, "flags": flags}
        return client.change("CancelJobs", {**request, **progress}, timeout_s=60.0)

    return change_all(job_filter.get("jobs") or [], ask)


def _without_queued(
    client: "Client", errors: "list[tuple[str, int, str]]", signal: int
) -> "list[tuple[str, int, str]]":
    """End steps that only the step manager of their job knows (`srun --async`); return the rest."""
    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.cli.step.step_manager import end_queued

    return [
        error
        for error in errors
        if "." not in error[0]
        or error[1] != Errno.ESLURM_INVALID_JOB_ID
        or not end_queued(client, error[0], signal)
    ]


def _failed(error: SlurmError, job_filter: "dict[str, Any]") -> int:
    for text in job_filter.get("jobs") or [""]:
        about = f" on job id {text}" if text else ""
        say(f"scancel: error: Kill job error{about}: {error.text}")
    return error.code & 0xFF or 1


def _report(
    reply: "dict[str, Any]",
    options: "dict[str, str]",
    signal: int,
    flags: int,
    verbose: bool,
    job_filter: "dict[str, Any]",
) -> int:
    for text in reply["done"]:
        target = "step" if "." in text else _target(flags)
        if signal:
            say(f"scancel: Signal {signal} to {target} {text}")
        else:
            say(f"scancel: Terminating {target} {text}")
    code = _report_errors(reply["errors"], options, verbose)
    if verbose and not reply["count"] and not reply["errors"]:
        words = [f"{word}={_said(options, name)} " for name, _, word in _FILTERS if name in options]
        if words:
            text = "".join(words)
            say(f"scancel: error: No active jobs match ALL job filters, including: {text}")
    return code


def _target(flags: int) -> str:
    """Return what of a job is meant, as -v names it."""
    if flags & CANCEL_FULL:
        return "full job"
    return "batch job" if flags & CANCEL_BATCH else "job"


def _said(options: "dict[str, str]", name: str) -> str:
    """Return an option's value as Slurm repeats it: states by their full names."""
    if name != "state":
        return options[name]
    return ",".join(job_state(_state(word, False), 0) for word in options[name].split(","))


def _report_errors(
    errors: "list[tuple[str, int, str]]", options: "dict[str, str]", verbose: bool
) -> int:
    """Print what was not done; return the exit code.

    If a job shall only end, one that is over or unknown is no error, so only -v reports it. A
    signal, an answer to a question or the end of a step needs a job that exists.
    """
    from pyslurm_ng.base.error_numbers import Errno

    is_plain = not ("signal" in options or "batch" in options or "interactive" in options)
    code = 0
    for text, number, words in errors:
        is_step = "." in text
        is_absent = number in (Errno.ESLURM_INVALID_JOB_ID, Errno.ESLURM_ALREADY_DONE)
        is_harmless = is_absent and is_plain and not is_step
        if (not is_harmless or verbose) and "quiet" not in options:
            kind = "job step" if is_step else "job"
            if verbose and is_plain and not is_step:
                say(f"scancel: Terminating job {text}")  # as Slurm, before it asks
            say(f"scancel: error: Kill job error on {kind} id {text}: {words}")
        if not is_harmless:
            code = 1 if is_absent else number & 0xFF
    return code


def _confirmed(
    client: "Client", job_filter: "dict[str, Any]"
) -> "tuple[dict[str, Any], list[tuple[str, int, str]]]":
    """Ask about each job; return a filter of the ids that got a yes, and errors of absent jobs."""
    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.base.error_texts import error_text
    from pyslurm_ng.base.sluid import record_sluid
    from pyslurm_ng.cli.listing.list_format import job_id_text

    asked = dict(job_filter)
    steps = [text for text in asked.get("jobs", ()) if "." in text]
    asked["jobs"] = [text for text in asked.get("jobs", ()) if "." not in text]
    chosen = [text for text in steps if _yes(f"Cancel step_id={text}")]
    known: set[int] = set()
    asked_about: set[int] = set()
    for row in _unfinished(client, asked) if asked["jobs"] or not steps else ():
        text = str(row[5]) if row[5] else job_id_text(*row[:7])
        known.update((row[0], row[1], row[5], record_sluid(row[9], row[10], row[0])))
        if row[5] in asked_about:
            continue  # one answer is about all components
        if row[5]:
            asked_about.add(row[5])
        if _yes(f"Cancel job_id={text} name={row[7]} partition={row[8]}"):
            # An array's limit is no part of its tasks' ids.
            tasks = f"{row[1]}_[{row[3]}]" if row[3] else str(row[5] or row[0])
            chosen.append(tasks)
    number = int(Errno.ESLURM_INVALID_JOB_ID)
    names = map(parse_job_id, asked["jobs"])
    absent = [name.text for name in names if (name.sluid or name.job_id) not in known]
    return {"jobs": chosen}, [(text, number, error_text(number)) for text in absent]


def _unfinished(client: "Client", job_filter: "dict[str, Any]") -> "list[tuple[Any, ...]]":
    """Return (ids of seven fields, name, partition, two times) of the jobs that are not over."""
    from pyslurm_ng.base.error_numbers import Errno

    try:
        query = {"filter": {"states": [0, 1, 2], **job_filter}, "flags": SHOW_DETAIL}
        reply = show_all(client, "ShowJobs", query)
    except SlurmError as error:
        if error.code != Errno.ESLURM_INVALID_JOB_ID:
            raise
        return []
    fields = ["job_id", "array_job_id", "array_task_id", "array_tasks", "array_limit",
              "het_job_id", "het_offset", "name", "partition",
              "submit_us", "resize_us"]  # fmt: skip
    return Table(reply["fields"], reply["records"], fields).rows


def _yes(question: str) -> bool:
    sys.stdout.write(f"{printable(question)} [y/n]? ")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    return answer[:1] in ("y", "Y")

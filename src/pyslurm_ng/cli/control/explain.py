"""scontrol explain job: why a job waits and until when, or why it runs where it runs."""

from pyslurm_ng.base.job_ids import split_job_ids
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli.command import fail, printable, say
from pyslurm_ng.cli.listing.list_format import Dates, short_time
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyslurm_ng.cli.control.session import Session

    Explained = dict[str, Any]


def explain(session: "Session", arguments: "list[str]") -> int:
    """Print the explanation of each job named."""
    if len(arguments) < 2 or not arguments[0] or not "jobs".startswith(arguments[0].lower()):
        fail("explain: what is meant? scontrol explain job JOBID[,JOBID...]")
    code = 0
    answers: list[Explained] = []
    for word in arguments[1:]:
        for job in split_job_ids(word) or [word]:
            try:
                answers.append(session.client.call("ExplainJob", {"job": job}, 60.0))
            except SlurmError as error:
                say(f"slurm_explain_job error: {error.text}: {job}")
                code = 1
    if session.json:
        return _print_json(session, answers) or code
    for index, answer in enumerate(answers):
        if index:
            print()
        print("\n".join(printable(line) for line in lines(answer)))
    return code


def lines(answer: "Explained") -> "Iterator[str]":
    """Yield the lines of one explanation."""
    times = Dates(answer["now_us"])
    if answer["state"] == "PENDING":
        why = (
            f": {answer['reason']}" if answer["reason"] != "None" else ""
        )  # no pass has seen it yet
        yield f"JobId={answer['job_id']} ({_job_text(answer)}) is PENDING{why}"
        yield from _waiting(answer, times)
    else:
        yield f"JobId={answer['job_id']} ({_job_text(answer)}) is {answer['state']}"
        for text in answer["waits_for"]:
            yield f"  {text}"
    if answer["history"]:
        yield "  What happened:"
        for line in answer["history"]:
            yield f"    {times.text(line['time_us'])}  {line['text']}"
    begin_us = answer["history_begin_us"]
    if begin_us > answer["submit_us"]:
        yield f"    (the journal that is left begins {times.text(begin_us)})"


def _job_text(answer: "Explained") -> str:
    name = f"{answer['name']}, " if answer["name"] else ""
    return f"{name}user {answer['user']}, partition {answer['partition']}"


def _waiting(answer: "Explained", times: Dates) -> "Iterator[str]":
    for text in answer["waits_for"]:
        yield f"  {text}"
    ahead = answer["ahead"]
    if ahead >= 0:
        yield (
            "  It is next in the queue"
            if not ahead
            else f"  {ahead} waiting job{'s' * (ahead != 1)} that may use the same nodes"
            f" go{'es' * (ahead == 1)} first"
        )
    if answer["is_late"]:
        yield "  There was no time to plan the jobs before it; the start is that of the last pass"
    is_hopeless = answer["start_us"] < 0 and ahead < 0
    if answer["start_us"] < 0:
        never = "never, as things are" if is_hopeless else "not within the planning window"
        yield f"  Expected start: {never}"
    elif answer["start_us"]:
        nodes = f" on {answer['nodes']}" if answer["nodes"] else ""
        guess = ", an estimate: no room is kept for it" * answer["is_estimate"]
        # A job that may not be considered yet has no place in the plan.
        start = "Earliest" if answer["reason"] == "BeginTime" else "Expected"
        yield f"  {start} start: {_moment(answer, answer['start_us'], times)}{nodes}{guess}"
    elif answer["sooner"] or any(holder["kind"] == "limit" for holder in answer["holders"]):
        yield "  Expected start: not known; a job behind a limit is promised no time"
    in_the_way = [holder for holder in answer["holders"] if holder["kind"] != "limit"]
    resource_word = "licences" if any(holder["licenses"] for holder in in_the_way) else "nodes"
    for heading, holders in (
        (f"{'Its' if is_hopeless else 'Until then its'} {resource_word} are held by:", in_the_way),
        ("These jobs count for that limit:", [
            holder for holder in answer["holders"] if holder["kind"] == "limit"
        ]),
    ):  # fmt: skip
        if holders:
            yield f"  {heading}"
            for holder in holders:
                yield f"    {_holder(answer, holder, times)}"
    if answer["holders_left_out"]:
        yield f"    and {answer['holders_left_out']} more"
    if answer["sooner"]:
        yield f"  It would start{'' if is_hopeless else ' sooner'} with:"
        width = max(len(change["option"]) for change in answer["sooner"])
        for change in answer["sooner"]:
            moment = _moment(answer, change["start_us"], times)
            if change["preempts"]:
                names = [name or "of another user" for name in change["preempts"]]
                moment += f", preempting job{'s' * (len(names) != 1)} {','.join(names)}"
            yield f"    {change['option'].ljust(width)}  {moment}"
    if answer["untried"]:
        yield f"  There was no time to try {answer['untried']} other changes"


def _moment(answer: "Explained", when_us: int, times: Dates) -> str:
    left_s = (when_us - answer["now_us"]) // SECOND_US
    return "now" if left_s <= 0 else f"{times.text(when_us)} (in {short_time(left_s)})"


def _holder(answer: "Explained", holder: "dict[str, Any]", times: Dates) -> str:
    if holder["kind"] == "end":
        return (
            f"the end of reservation {holder['name']}, {_moment(answer, holder['from_us'], times)}"
        )
    noun = {"planned": "waiting job", "limit": "job", "cleaning": "job"}.get(
        holder["kind"], holder["kind"]
    )
    text = f"{noun} {holder['name']}" if holder["name"] else f"{noun} of another user"
    if holder["user"]:
        text += f" of {holder['user']}"
    if holder["licenses"]:
        text += f", {holder['licenses']}"
    elif holder["kind"] == "planned":
        text += f", which is to use {holder['nodes']}"
    else:
        text += f" on {holder['nodes']}"
    if holder["cpus"] and not holder["licenses"]:
        text += f", {holder['cpus']} CPU{'s' * (holder['cpus'] != 1)}"
    if holder["from_us"] > answer["now_us"]:
        text += f", from {times.text(holder['from_us'])}"
    if holder["kind"] == "cleaning":
        return f"{text}, which is over; its nodes clean up"
    if not holder["until_us"]:
        return text + (
            ", without end" if holder["kind"] not in ("job", "limit") else ", without a time limit"
        )
    return f"{text}, until {_moment(answer, holder['until_us'], times)}"


def _print_json(session: "Session", answers: "list[Explained]") -> int:
    """Print one document; times are seconds since the epoch, 0 where not known."""
    from pyslurm_ng.cli.documents import print_body, tail

    cluster = session.conf.get("ClusterName", "")
    body = {
        "explanations": [_in_seconds(answer) for answer in answers],
        **tail(session.json, cluster),
    }
    return print_body(body)


def _in_seconds(value: "Any") -> "Any":
    """Return the answer with `*_us` as `*_time` in seconds; -1 stays -1."""
    if isinstance(value, list):
        return [_in_seconds(element) for element in value]
    if not isinstance(value, dict):
        return value
    converted = {}
    for name, element in value.items():
        if name.endswith("_us"):
            converted[name[:-3] if name == "time_us" else f"{name[:-3]}_time"] = (
                element // SECOND_US if element > 0 else element
            )
        else:
            converted[name] = _in_seconds(element)
    return converted

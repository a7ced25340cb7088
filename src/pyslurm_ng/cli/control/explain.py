"""scontrol explain job: why a job waits and until when, or why it runs where it runs."""

from pyslurm_ng.base.job_ids import split_job_ids
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli.command import fail, say
from pyslurm_ng.cli.control.session import printable
from pyslurm_ng.cli.listing.fmt import Dates, short_time
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
    found: list[Explained] = []
    for word in arguments[1:]:
        for job in split_job_ids(word) or [word]:
            try:
                found.append(session.client.call("ExplainJob", {"job": job}, 60.0))
            except SlurmError as error:
                say(f"slurm_explain_job error: {error.text}: {job}")
                code = 1
    if session.json:
        return _print_json(session, found) or code
    for place, one in enumerate(found):
        if place:
            print()
        print("\n".join(printable(line) for line in lines(one)))
    return code


def lines(one: "Explained") -> "Iterator[str]":
    """Yield the lines of one explanation."""
    times = Dates(one["now_us"])
    if one["state"] == "PENDING":
        why = f": {one['reason']}" if one["reason"] != "None" else ""  # no pass has seen it yet
        yield f"JobId={one['job_id']} ({_who(one)}) is PENDING{why}"
        yield from _waiting(one, times)
    else:
        yield f"JobId={one['job_id']} ({_who(one)}) is {one['state']}"
        for text in one["waits_for"]:
            yield f"  {text}"
    if one["history"]:
        yield "  What happened:"
        for line in one["history"]:
            yield f"    {times.text(line['time_us'])}  {line['text']}"
    begin_us = one["history_begin_us"]
    if begin_us > one["submit_us"]:
        yield f"    (the journal that is left begins {times.text(begin_us)})"


def _who(one: "Explained") -> str:
    name = f"{one['name']}, " if one["name"] else ""
    return f"{name}user {one['user']}, partition {one['partition']}"


def _waiting(one: "Explained", times: Dates) -> "Iterator[str]":
    for text in one["waits_for"]:
        yield f"  {text}"
    ahead = one["ahead"]
    if ahead >= 0:
        yield (
            "  It is next in the queue"
            if not ahead
            else f"  {ahead} waiting job{'s' * (ahead != 1)} that may use the same nodes"
            f" go{'es' * (ahead == 1)} first"
        )
    if one["is_late"]:
        yield "  There was no time to plan the jobs before it; the start is that of the last pass"
    is_hopeless = one["start_us"] < 0 and ahead < 0
    if one["start_us"] < 0:
        never = "never, as things are" if is_hopeless else "not within the planning window"
        yield f"  Expected start: {never}"
    elif one["start_us"]:
        nodes = f" on {one['nodes']}" if one["nodes"] else ""
        guess = ", an estimate: no room is kept for it" * one["is_estimate"]
        # A job that may not be considered yet has no place in the plan.
        what = "Earliest" if one["reason"] == "BeginTime" else "Expected"
        yield f"  {what} start: {_moment(one, one['start_us'], times)}{nodes}{guess}"
    elif one["sooner"] or any(item["kind"] == "limit" for item in one["holders"]):
        yield "  Expected start: not known; a job behind a limit is promised no time"
    in_the_way = [item for item in one["holders"] if item["kind"] != "limit"]
    what = "licences" if any(item["licenses"] for item in in_the_way) else "nodes"
    for heading, items in (
        (f"{'Its' if is_hopeless else 'Until then its'} {what} are held by:", in_the_way),
        ("These jobs count for that limit:", [
            item for item in one["holders"] if item["kind"] == "limit"
        ]),
    ):  # fmt: skip
        if items:
            yield f"  {heading}"
            for item in items:
                yield f"    {_holder(one, item, times)}"
    if one["holders_left_out"]:
        yield f"    and {one['holders_left_out']} more"
    if one["sooner"]:
        yield f"  It would start{'' if is_hopeless else ' sooner'} with:"
        width = max(len(item["option"]) for item in one["sooner"])
        for item in one["sooner"]:
            moment = _moment(one, item["start_us"], times)
            if item["preempts"]:
                names = [name or "of another user" for name in item["preempts"]]
                moment += f", preempting job{'s' * (len(names) != 1)} {','.join(names)}"
            yield f"    {item['option'].ljust(width)}  {moment}"
    if one["untried"]:
        yield f"  There was no time to try {one['untried']} other changes"


def _moment(one: "Explained", when_us: int, times: Dates) -> str:
    left_s = (when_us - one["now_us"]) // SECOND_US
    return "now" if left_s <= 0 else f"{times.text(when_us)} (in {short_time(left_s)})"


def _holder(one: "Explained", item: "dict[str, Any]", times: Dates) -> str:
    if item["kind"] == "end":
        return f"the end of reservation {item['name']}, {_moment(one, item['from_us'], times)}"
    what = {"planned": "waiting job", "limit": "job", "cleaning": "job"}.get(
        item["kind"], item["kind"]
    )
    text = f"{what} {item['name']}" if item["name"] else f"{what} of another user"
    if item["user"]:
        text += f" of {item['user']}"
    if item["licenses"]:
        text += f", {item['licenses']}"
    elif item["kind"] == "planned":
        text += f", which is to use {item['nodes']}"
    else:
        text += f" on {item['nodes']}"
    if item["cpus"] and not item["licenses"]:
        text += f", {item['cpus']} CPU{'s' * (item['cpus'] != 1)}"
    if item["from_us"] > one["now_us"]:
        text += f", from {times.text(item['from_us'])}"
    if item["kind"] == "cleaning":
        return f"{text}, which is over; its nodes clean up"
    if not item["until_us"]:
        return text + (
            ", without end" if item["kind"] not in ("job", "limit") else ", without a time limit"
        )
    return f"{text}, until {_moment(one, item['until_us'], times)}"


def _print_json(session: "Session", found: "list[Explained]") -> int:
    """Print one document; times are seconds since the epoch, 0 where not known."""
    from pyslurm_ng.cli.command import write_bytes
    from pyslurm_ng.cli.listing.json_text import encode, tail

    cluster = session.conf.get("ClusterName", "")
    body = {"explanations": [_in_seconds(one) for one in found], **tail(session.json, cluster)}
    write_bytes((encode(body, 0) + "\n").encode())
    return 0


def _in_seconds(value: "Any") -> "Any":
    """Return the answer with `*_us` as `*_time` in seconds; -1 stays -1."""
    if isinstance(value, list):
        return [_in_seconds(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, item in value.items():
        if name.endswith("_us"):
            found[name[:-3] if name == "time_us" else f"{name[:-3]}_time"] = (
                item // SECOND_US if item > 0 else item
            )
        else:
            found[name] = _in_seconds(item)
    return found

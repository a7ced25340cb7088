"""scontrol watch: a line for each thing that happens to jobs and nodes."""

from pyslurm_ng.cli.command import fail, printable, say
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyslurm_ng.cli.control.session import Session

_USAGE = "watch: what is meant? scontrol watch [jobs | nodes | job JOBID[,JOBID...] | node NAMES]"


def watch(session: "Session", arguments: "list[str]") -> int:
    """Print events until the command is ended."""
    from pyslurm_ng.cli.listing.event_stream import follow

    request = _request(arguments)
    request["flags"] = int(session.all)
    try:
        for told in follow(session.conf, request, "scontrol"):
            for line in _json_lines(told) if session.json else _lines(told):
                print(line, flush=True)
    except SlurmError as error:
        say(f"slurm_watch error: {error.text}")
        return 1
    return 0


def _request(arguments: "list[str]") -> "dict[str, Any]":
    from pyslurm_ng.base.job_ids import split_job_ids

    what, named = (arguments[0].lower() if arguments else ""), arguments[1:]
    if what not in ("", "job", "jobs", "node", "nodes"):
        fail(_USAGE)
    if not what:
        return {"with_jobs": True, "with_nodes": True}
    if what in ("job", "jobs"):
        jobs = [job for word in named for job in split_job_ids(word) or [word]]
        return {"with_jobs": True, "filter": {"jobs": jobs}}
    return {"with_jobs": False, "with_nodes": True, "nodes": ",".join(named)}


def _lines(told: "dict[str, Any]") -> "Iterator[str]":
    if "is_whole" in told:
        if not told["is_whole"]:
            yield "(some events were missed)"
        return
    for kind, event in _in_order(told):
        line = _job_line(event) if kind == "job" else _node_line(event)
        yield printable(line)


def _in_order(told: "dict[str, Any]") -> "list[tuple[str, dict[str, Any]]]":
    events = [("job", event) for event in told["jobs"]]
    events += [("node", event) for event in told["nodes"]]
    return sorted(events, key=lambda kind_and_event: kind_and_event[1]["sequence"])


def _moment(event: "dict[str, Any]") -> str:
    from pyslurm_ng.cli.listing.list_format import Dates

    return Dates(event["time_us"]).text(event["time_us"])


def _job_line(event: "dict[str, Any]") -> str:
    from pyslurm_ng.base.state_names import job_state

    words = [
        f"JobId={event['id']}", event["what"],
        f"JobState={job_state(event['state'], event.get('flags', 0))}",
        f"UserId={event['user']}({event['uid']})", f"Account={event['account'] or '(null)'}",
        f"Partition={event['partition']}", f"JobName={event['name']}",
    ]  # fmt: skip
    if event.get("nodes"):
        words.append(f"NodeList={event['nodes']}")
    if event.get("reason"):
        words.append(f"Reason={event['reason']}")
    if event["what"] in ("completing", "ended"):
        status = event.get("exit_code", 0)
        words.append(f"ExitCode={status >> 8 & 0xFF}:{status & 0x7F}")
    return f"{_moment(event)} {' '.join(words)}"


def _node_line(event: "dict[str, Any]") -> str:
    from pyslurm_ng.base.state_names import node_state_full

    words = [
        f"NodeName={event['nodes']}", event["what"],
        f"State={node_state_full(event['state'], event.get('flags', 0))}",
    ]  # fmt: skip
    if event.get("reason"):
        words.append(f"Reason={event['reason']}")
    return f"{_moment(event)} {' '.join(words)}"


def _json_lines(told: "dict[str, Any]") -> "Iterator[str]":
    from json import dumps

    from pyslurm_ng.data_parser.event_records import event_records

    if "is_whole" in told:
        yield dumps({"kind": "begun", "sequence": told["sequence"], "whole": told["is_whole"]})
        return
    for kind, record in event_records(told):
        yield dumps({"kind": kind, **record})

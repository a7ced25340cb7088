"""Replaying a recorded journal: the same configuration gives the same waits, another one others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import Struct

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.journal.checkpoint import write_checkpoint
from pyslurm_ng.journal.segment import (
    JournalError,
    SegmentHeader,
    SegmentReader,
    encode_frames,
    segment_path,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.comparison import compare
from pyslurm_ng.sim.journal_run import JournalRun
from pyslurm_ng.sim.recorded import read_recording
from pyslurm_ng.up.__main__ import main
from pyslurm_ng.wire.query_messages import (
    DeleteReservation,
    HoldJobs,
    SuspendJobs,
    UpdateJob,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
)
from tests.sim.past import BEGIN_US, CONF, MINUTE_US, PastJob, record
from tests.world.examples import drawn


def test_the_same_configuration_gives_the_same_starts(tmp_path: Path) -> None:
    """Every job and array task starts at the recorded moment and ends at it, too."""
    recording = read_recording(record(tmp_path / "state"))
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    assert len(recording.runs) == 9
    assert run.runs == recording.runs
    assert not run.refused


def test_a_report_says_which_users_gain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Backfill lets the short job start at once. Table, JSON and page agree."""
    state, conf = record(tmp_path / "state"), tmp_path / "slurm.conf"
    conf.write_text(CONF)
    html = tmp_path / "out.html"
    words = ["sim", "--journal", str(state), "--conf", str(conf), "--html", str(html), "--json"]
    assert main([*words, "--set", "SchedulerType=sched/backfill"]) == 0
    report = json.loads(capsys.readouterr().out)
    users = {row["name"]: row for row in report["users"]}
    assert report["jobs"] == 9
    assert users["cay"]["gain_s"] > 0
    assert users["cay"]["simulated"]["mean_wait_s"] == 0
    assert users["ann"]["recorded"]["jobs"] == 1
    page = html.read_text()
    assert page.count("<svg") == 3 and page.count("<table") == 3
    assert "http" not in page and ">cay<" in page


def test_a_torn_tail_is_reported_and_not_cut(tmp_path: Path) -> None:
    """Reading changes nothing on disk."""
    state = record(tmp_path / "state")
    path = next((state / "journal").iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    recording = read_recording(path)
    (note,) = [note for note in recording.notes if "torn" in note]
    assert note.endswith(f"replayed as far as record {recording.records}")
    assert path.read_bytes() == whole[:-10]


def _payloads() -> list[bytes]:
    with TemporaryDirectory() as directory:
        path = next((record(Path(directory) / "state") / "journal").iterdir())
        with SegmentReader(path) as reader:
            return [bytes(frame.payload) for frame in reader]


PAYLOADS = _payloads()


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No journal, a newer version, contradicting options."""
    conf, empty = tmp_path / "slurm.conf", tmp_path / "empty"
    conf.write_text(CONF)
    empty.mkdir()
    assert main(["sim", "--journal", str(empty), "--conf", str(conf)]) != 0
    assert "there is no journal segment" in capsys.readouterr().err
    assert main(["sim", "--journal", str(empty)]) == 2
    assert "--conf" in capsys.readouterr().err
    assert main(["sim", "--journal", str(empty), "--procs", "3"]) == 2
    segment_path(empty, 1, 9).write_bytes(SegmentHeader(b"k" * 16, 1, 9, 0).encode())
    capsys.readouterr()
    assert main(["sim", "--journal", str(empty), "--conf", str(conf)]) != 0
    assert "begins with record 9" in capsys.readouterr().err
    segment_path(empty, 1, 9).unlink()
    segment_path(empty, 1, 1).write_bytes(b"no header" * 99)
    assert main(["sim", "--journal", str(empty), "--conf", str(conf)]) == 2
    error = capsys.readouterr().err
    assert error.endswith("damaged at offset 0: this is not a journal segment\n")


def test_a_time_that_no_calendar_has_is_refused(tmp_path: Path) -> None:
    """A spoilt time would let the simulation wait for it for ever."""
    late = encode_batch([ev.LicensesUpdated(1 << 63, ())])
    header = SegmentHeader(b"k" * 16, 1, 1, 0)
    pieces, _ = encode_frames(header.journal_id, header.position, 0, [*PAYLOADS, late])
    segment_path(tmp_path, 1, 1).write_bytes(header.encode() + b"".join(pieces))
    with pytest.raises(
        JournalError, match=r"^record \d+: LicensesUpdated is of a time that no calendar"
    ):
        read_recording(tmp_path)


@settings(max_examples=drawn(60), deadline=None)
@given(st.data())
def test_a_story_that_cannot_be_is_one_line(data: st.DataObject) -> None:
    """Records that are lost, repeated, out of order or spoilt: refused by number, or replayed."""
    payloads = list(PAYLOADS)
    places = st.integers(1, len(payloads) - 1)
    at, other = data.draw(places), data.draw(places)
    match data.draw(st.sampled_from(["drop", "swap", "repeat", "spoil"])):
        case "drop":
            del payloads[at]
        case "swap":
            payloads[at], payloads[other] = payloads[other], payloads[at]
        case "repeat":
            payloads.insert(at, payloads[other])
        case _:
            spoilt = bytearray(payloads[at])
            spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
            payloads[at] = bytes(spoilt)
    with TemporaryDirectory() as name:
        directory = Path(name)
        header = SegmentHeader(b"k" * 16, 1, 1, 0)
        pieces, _ = encode_frames(header.journal_id, header.position, 0, payloads)
        segment_path(directory, 1, 1).write_bytes(header.encode() + b"".join(pieces))
        try:
            recording = read_recording(directory)
        except JournalError as error:
            refusal = str(error)
        else:
            refusal = ""
            JournalRun(recording, parse_slurm_conf(CONF), Planner()).run()
    assert not refusal or refusal.startswith("record ")


@pytest.mark.parametrize(("setting", "text"), [
    ("Foo=1", "--set: Foo: unknown key in slurm.conf"),
    ("Foo", "Invalid value for --set: 'Foo' is not KEY=VALUE"),
    ("NodeName=n[1-4", "--set: NodeName: Invalid hostlist: n[1-4: '[' without ']'"),
    ("PartitionName=main Nodes=q1", "--set: Nodes: no NodeName line has q1"),
])  # fmt: skip
def test_a_bad_setting_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, text: str
) -> None:
    """Not by a line of slurm.conf that does not exist."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    words = ["--journal", str(record(tmp_path / "state")), "--conf", str(conf), "--set", setting]
    assert main(["sim", *words]) == 2
    assert capsys.readouterr().err == f"pyslurm-ng: error: {text}\n"


def test_settings_replace_what_included_files_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of nodes and partitions by name, others by key."""
    state, conf, parts = (tmp_path / name for name in ("state", "slurm.conf", "parts.conf"))
    record(state)
    lines = CONF.splitlines(keepends=True)
    conf.write_text("".join(lines[:-1]) + "Include parts.conf\n")
    parts.write_text(lines[-1] + "SchedulerParameters=default_queue_depth=7 MaxArraySize=5\n")
    words = ["sim", "--journal", str(state), "--conf", str(conf), "--json"]
    partition = lines[-1].strip().replace("n[1-4]", "n[1-3]")
    assert main([*words, "--set", partition, "--set", "maxarraysize=100"]) == 0
    small = json.loads(capsys.readouterr().out)
    assert main([*words, "--set", "MaxArraySize=100"]) == 0
    assert small["jobs"] < json.loads(capsys.readouterr().out)["jobs"]


def test_a_page_that_cannot_be_written_is_an_error_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf, html = tmp_path / "slurm.conf", tmp_path / "nowhere" / "page.html"
    words = ["--journal", str(tmp_path), "--conf", str(conf), "--html", str(html)]
    conf.write_text("")  # neither this nor the journal is looked at
    assert main(["sim", *words]) == 2
    assert capsys.readouterr().err.endswith(f"{html}: its directory cannot be written to\n")


def begin_at(state: Path, cut: int) -> None:
    """Put a checkpoint in the place of the first `cut` records of a state directory."""
    path = next((state / "journal").iterdir())
    with SegmentReader(path) as reader:
        frames = list(reader)
    cluster = Cluster()
    for frame in frames[:cut]:
        for event in decode_batch(frame.payload):
            apply_all(cluster, [event])
    path.unlink()
    (state / "checkpoint").mkdir()
    last = frames[cut - 1].position
    write_checkpoint(state / "checkpoint", b"k" * 16, last, cluster.to_bytes())
    header = SegmentHeader(b"k" * 16, 1, last.sequence + 1, last.checksum)
    pieces, _ = encode_frames(
        header.journal_id, header.position, 0, [frame.payload for frame in frames[cut:]]
    )
    later = segment_path(state / "journal", 1, last.sequence + 1)
    later.write_bytes(header.encode() + b"".join(pieces))


def test_a_replay_may_begin_at_a_checkpoint(tmp_path: Path) -> None:
    """Jobs that run and wait there go on as recorded; the older records are named by number."""
    cut = 8
    begin_at(state := record(tmp_path / "state"), cut)
    recording = read_recording(state)
    assert f"records 1 to {cut} are only in a checkpoint" in recording.notes[0]
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    assert len(run.runs) == len(recording.runs) >= 8
    assert run.runs == recording.runs


def starts(run: JournalRun) -> dict[int, float]:
    """Return in which minute each job started, by the recording's ids."""
    return {key[0]: (job_run.start_us - BEGIN_US) / MINUTE_US for key, job_run in run.runs.items()}


def simple(minute: int, user: str, nodes: int, limit: int, run: int, **more: str) -> PastJob:
    return (minute, user, nodes, limit, run, dict(more))


def test_jobs_that_wait_for_years_cost_no_time(tmp_path: Path) -> None:
    """One waits for a partition to come up, one for its begin time, one for a node."""
    year_min = 365 * 1440
    begin_us = BEGIN_US + 5 * year_min * MINUTE_US
    jobs = [
        simple(0, "ann", 1, 30, 20, partition="late"),
        simple(1, "bob", 1, 30, 20),
        simple(2, "cay", 4, 30, 20),
    ]
    deeds: list[tuple[float, Struct]] = [
        (0, UpdateNodes(bytes(16), "n2", {"state": "DOWN", "reason": "disk"})),
        (1, UpdateJob(bytes(16), {"starttime": str(begin_us // 1_000_000)}, ["2"])),
        (8 * year_min, UpdateNodes(bytes(16), "n2", {"state": "RESUME"})),
        (9 * year_min, UpdatePartition(bytes(16), "late", {"state": "UP"})),
    ]
    conf_text = CONF + "PartitionName=late Nodes=n1 State=DOWN MaxTime=INFINITE\n"
    conf_text = conf_text.replace("sched/builtin", "sched/backfill")
    state = record(tmp_path / "state", conf_text=conf_text, jobs=jobs, deeds=deeds)
    recording = read_recording(state)
    run = JournalRun(recording, parse_slurm_conf(conf_text), Planner())
    run.run()
    assert run.runs == recording.runs and len(run.runs) == 3
    assert starts(run)[3] >= 8 * year_min and starts(run)[1] == 9 * year_min
    assert run.world.actions_run < 2000


def test_what_administrators_did_is_done_again(tmp_path: Path) -> None:
    """Drains, changed partitions and reservations act at the recorded moment, nodes by name."""
    jobs = [
        simple(1, "ann", 4, 5, 5),  # at 10, when n1 is resumed
        simple(12, "bob", 1, 10, 10),  # at 40: the partition is down, then the nodes are reserved
        simple(13, "cay", 1, 10, 10, reservation="course"),
        simple(41, "dan", 1, 10, 10, partition="late"),
        simple(70, "eve", 1, 10, 10),  # at 80: the maintenance was deleted half an hour early
    ]
    at_us = BEGIN_US + 20 * MINUTE_US
    course = {
        "starttime": str(at_us),
        "endtime": str(at_us + 20 * MINUTE_US),
        "nodes": "n[1-4]",
        "users": "cay",
    }
    upkeep = {
        "starttime": str(BEGIN_US + 70 * MINUTE_US),
        "duration": "40",
        "nodes": "ALL",
        "users": "root",
        "flags": "MAINT",
    }
    deeds: list[tuple[float, Struct]] = [
        (0, UpdateNodes(bytes(16), "n1", {"state": "DRAIN", "reason": "disk"})),
        (2, UpdateReservation(bytes(16), "course", course, True)),
        (10, UpdateNodes(bytes(16), "n1", {"state": "RESUME"})),
        (11, UpdatePartition(bytes(16), "main", {"state": "DOWN"})),
        (18, UpdatePartition(bytes(16), "main", {"state": "UP"})),
        (40, UpdatePartition(bytes(16), "late", {"nodes": "n2", "state": "UP"}, True)),
        (60, UpdateReservation(bytes(16), "upkeep", upkeep, True)),
        (80, DeleteReservation(bytes(16), "upkeep")),
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=deeds))
    # Nodes have other ids in this configuration.
    conf = parse_slurm_conf(CONF.replace("n[1-4] CPUs", "n[4,3,2,1] CPUs"))
    run = JournalRun(recording, conf, Planner())
    run.run()
    replayed = starts(run)
    recorded = {key[0]: (r.start_us - BEGIN_US) / MINUTE_US for key, r in recording.runs.items()}
    assert not recording.notes
    assert replayed == recorded
    assert recorded[1] == 10 and recorded[2] >= 40 and 20 <= recorded[3] < 21
    assert recorded[5] == 80


def test_changes_of_jobs_are_made_again(tmp_path: Path) -> None:
    """Holds, releases, limits, requests and dependencies, also of some tasks of an array."""
    jobs = [
        simple(0, "ann", 4, 30, 20),
        simple(1, "bob", 1, 10, 5),  # held from 2 to 50
        simple(1, "cay", 4, 60, 10),  # 2 nodes from minute 3 on
        simple(1, "dan", 1, 10, 5, array="0-5%6"),  # tasks 2 and 4 wait for the release
        simple(1, "eve", 2, 10, 5),  # after cay's
        simple(1, "fay", 1, 10, 5, hold="yes"),  # submitted held, 3 nodes when released
    ]
    deeds: list[tuple[float, Struct]] = [
        (2, HoldJobs(bytes(16), ["2"])),
        (3, UpdateJob(bytes(16), {"numnodes": "2"}, ["3"])),
        (3, UpdateJob(bytes(16), {"timelimit": "15"}, ["3"])),
        (4, HoldJobs(bytes(16), ["4_[2,4]"])),
        (4, UpdateJob(bytes(16), {"dependency": "afterok:3"}, ["5"])),
        (5, UpdateJob(bytes(16), {"numnodes": "3"}, ["6"])),
        (50, HoldJobs(bytes(16), ["2", "4_[2,4]"], release=True)),
        (55, HoldJobs(bytes(16), ["6"], release=True)),
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=deeds))
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    assert len(recording.runs) == 11
    assert run.runs == recording.runs
    began = {key: (job_run.start_us - BEGIN_US) / MINUTE_US for key, job_run in run.runs.items()}
    assert began[2, NO_VAL] == 50 and began[4, 2] == 50 and began[4, 3] < 40
    assert began[5, NO_VAL] == 30 and began[6, NO_VAL] >= 55
    assert run.runs[6, NO_VAL].cpus == 6


def test_suspensions_are_made_again(tmp_path: Path) -> None:
    """A job stopped by hand for 20 minutes ends as much later, here and there."""
    jobs = [
        simple(0, "ann", 4, 120, 30),  # stopped from 10 to 30
        simple(1, "bob", 4, 60, 5),  # has the nodes meanwhile, from 10 to 15
        simple(40, "cay", 1, 60, 5),  # after ann's, whatever else
        simple(60, "dan", 1, 60, 5),
    ]
    deeds: list[tuple[float, Struct]] = [
        (10, SuspendJobs(bytes(16), ["1"])),
        (30, SuspendJobs(bytes(16), ["1"], resume=True)),
        (61, SuspendJobs(bytes(16), ["4"])),  # to the end
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=deeds))
    ended = {
        key[0]: (job_run.end_us - BEGIN_US) / MINUTE_US for key, job_run in recording.runs.items()
    }
    assert ended[1] == 50
    assert recording.runs[1, NO_VAL].run_us == 30 * MINUTE_US
    assert not [note for note in recording.notes if "suspended" in note]
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    again = {key[0]: (job_run.end_us - BEGIN_US) / MINUTE_US for key, job_run in run.runs.items()}
    assert {key: again[key] for key in (1, 2, 3)} == {key: ended[key] for key in (1, 2, 3)}
    assert starts(run) == {
        key[0]: (job_run.start_us - BEGIN_US) / MINUTE_US for key, job_run in recording.runs.items()
    }


def test_requeued_jobs_wait_as_this_configuration_says(tmp_path: Path) -> None:
    """A victim of preemption, and the job of a node that fails, come back after requeue_delay."""
    preempting = (
        "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
        "PartitionName=urgent Nodes=n[1-2] PriorityTier=9 OverSubscribe=EXCLUSIVE\n"
    )
    plain = CONF.replace("sched/builtin", "sched/backfill")
    slow = plain + preempting + "SchedulerParameters=requeue_delay=1200\n"
    jobs = [
        simple(0, "ann", 2, 60, 30, node_list="n[1-2]"),  # leaves at 5
        simple(0, "bob", 1, 60, 30, node_list="n3"),  # fails at 6
        simple(5, "cay", 2, 60, 5, partition="urgent"),
    ]
    down, back = ({"state": state, "reason": "fan"} for state in ("DOWN", "RESUME"))
    deeds: list[tuple[float, Struct]] = [
        (6, UpdateNodes(bytes(16), "n3", down)),
        (7, UpdateNodes(bytes(16), "n3", back)),
    ]
    state = record(tmp_path / "state", conf_text=slow, jobs=jobs, deeds=deeds)
    recording = read_recording(state)
    ended = {}
    for conf in (slow, slow.replace("1200", "0")):
        run = JournalRun(recording, parse_slurm_conf(conf), Planner())
        run.run()
        ends = {
            key[0]: (job_run.end_us - BEGIN_US) // MINUTE_US for key, job_run in run.runs.items()
        }
        ended[conf] = ends[1], ends[2]
    assert ended[slow] == (25 + 30, 26 + 30)
    assert ended[slow.replace("1200", "0")] == (10 + 30, 7 + 30)


def test_what_this_configuration_lacks_is_counted(tmp_path: Path) -> None:
    """A job moved to a partition that is gone, a reservation of cores of a node that is gone."""
    jobs = [simple(0, "ann", 2, 30, 20), simple(1, "bob", 2, 10, 5)]
    course = {"starttime": str(BEGIN_US + 100 * MINUTE_US), "duration": "60", "nodes": "n4"}
    course |= {"corecnt": "1"}
    deeds: list[tuple[float, Struct]] = [
        (0, UpdateReservation(bytes(16), "course", {**course, "users": "ann"}, True)),
        (0, HoldJobs(bytes(16), ["1"])),
        (2, UpdateJob(bytes(16), {"partition": "second"}, ["1"])),
        (3, HoldJobs(bytes(16), ["1"], release=True)),
    ]
    conf_text = CONF + "PartitionName=second Nodes=n[1-4] MaxTime=INFINITE\n"
    recording = read_recording(
        record(tmp_path / "state", conf_text=conf_text, jobs=jobs, deeds=deeds)
    )
    run = JournalRun(recording, parse_slurm_conf(CONF.replace("n[1-4]", "n[1-3]")), Planner())
    run.run()
    assert sum(run.refused.values()) == 2, run.refused
    assert any("course" in text for text in run.refused)
    assert any("partition second" in text for text in run.refused)


def test_reservations_of_nodes_that_are_gone_have_as_many_others(tmp_path: Path) -> None:
    """By name where there is such a node, otherwise by count.

    Jobs that ran in one stay. One line says so.
    """
    at_us = BEGIN_US + 20 * MINUTE_US
    jobs = [simple(1, "ann", 1, 30, 20), simple(2, "bob", 2, 30, 5), simple(3, "cay", 1, 30, 5)]
    course = {"starttime": str(at_us), "duration": "60", "nodes": "n[3-4]", "users": "eve"}
    upkeep = {**course, "starttime": str(at_us + 90 * MINUTE_US), "nodes": "ALL", "users": "root"}
    deeds: list[tuple[float, Struct]] = [
        (0, UpdateReservation(bytes(16), "course", course, True)),
        (5, UpdateReservation(bytes(16), "course", {"duration": "50"})),
        (6, UpdateReservation(bytes(16), "upkeep", {**upkeep, "flags": "MAINT"}, True)),
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=deeds))
    conf = parse_slurm_conf(CONF.replace("n[1-4]", "n[1-3],m[1-3]"))
    run = JournalRun(recording, conf, Planner())
    members: dict[str, list[list[str]]] = {}

    def seen(events: Sequence[ev.AnyEvent]) -> None:
        for event in events:
            if isinstance(event, ev.ReservationCreated | ev.ReservationUpdated):
                reservation = event.reservation
                names = run.controller.cluster.node_names(reservation.node_ids)
                members.setdefault(reservation.name, []).append(names)

    run.controller.writer.observe(seen)
    run.run()
    assert len(members["course"]) >= 2
    assert all(names == ["n1", "n3"] for names in members["course"])
    assert all(len(names) == 6 for names in members["upkeep"])
    assert [note for note in compare(run).notes if "reservations course, upkeep" in note]


def test_reservations_of_a_checkpoint_get_other_nodes_too(tmp_path: Path) -> None:
    course = {"starttime": str(BEGIN_US + 99 * MINUTE_US), "duration": "60", "nodes": "n[3-4]"}
    jobs = [simple(2, "ann", 1, 30, 20), simple(4, "bob", 1, 30, 20)]
    deeds: list[tuple[float, Struct]] = [
        (1, UpdateReservation(bytes(16), "course", {**course, "users": "eve"}, True)),
    ]
    begin_at(state := record(tmp_path / "state", jobs=jobs, deeds=deeds), 3)
    recording = read_recording(state)
    assert Cluster.from_bytes(recording.base).reservations
    run = JournalRun(recording, parse_slurm_conf(CONF.replace("n[1-4]", "n[1-3]")), Planner())
    cluster = run.controller.cluster
    assert cluster.node_names(cluster.reservations["course"].node_ids) == ["n1", "n3"]
    assert list(run.moved) == ["course"]


def test_licences_of_other_servers_are_set_again(tmp_path: Path) -> None:
    """This configuration's own stay as they are here."""
    told = ev.LicensesUpdated(BEGIN_US, (("own", 1), ("matlab@flex", 2)))
    jobs = [simple(minute, "ann", 1, 30, 10, licenses="matlab@flex") for minute in (1, 2, 3)]
    conf_text = CONF + "Licenses=own:1\n"
    state = record(tmp_path / "state", conf_text=conf_text, jobs=jobs, told=[told])
    run = JournalRun(read_recording(state), parse_slurm_conf(CONF + "Licenses=own:7\n"), Planner())
    run.run()
    assert starts(run) == {1: 1, 2: 2, 3: 11}
    assert run.controller.cluster.licenses == {"own": 7, "matlab@flex": 2}


def test_heterogeneous_jobs_are_replayed_whole(tmp_path: Path) -> None:
    """Components wait for each other in the replay as they did."""
    jobs = [
        simple(0, "ann", 3, 30, 20),
        simple(1, "bob", 1, 30, 10, components="3"),  # needs three nodes: waits for ann's
        simple(2, "cay", 1, 10, 5),
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=()))
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    assert len(recording.runs) == 5
    assert run.runs == recording.runs
    together = [job_run.start_us for job_run in run.runs.values() if job_run.user == "bob"]
    assert len(together) == 3 and len(set(together)) == 1
    assert together[0] == BEGIN_US + 20 * MINUTE_US


def test_limits_told_by_accounting_hold_in_the_replay(tmp_path: Path) -> None:
    """A user of one job at a time; without the limits being enforced the second starts at once."""
    enforced = CONF + "AccountingStorageEnforce=associations,limits,qos\n"
    assocs = (
        Association(1, "root", lineage="/"),
        Association(2, "lab", parent_id=1, qos=("normal",), lineage="/lab/"),
        Association(
            3,
            "lab",
            "ann",
            parent_id=2,
            qos=("normal",),
            default_qos="normal",
            is_default=True,
            limits=Limits(max_jobs=1),
        ),
    )
    told: list[ev.AnyEvent] = [
        ev.QosChanged(BEGIN_US, changed=(Qos(1, "normal"),)),
        ev.AssocChanged(BEGIN_US, changed=assocs, users=(UserRecord("ann", "lab"),), version=1),
    ]
    jobs = [simple(1, "ann", 1, 30, 20), simple(2, "ann", 1, 30, 20)]
    state = record(tmp_path / "state", conf_text=enforced, jobs=jobs, deeds=(), told=told)
    recording = read_recording(state)
    run = JournalRun(recording, parse_slurm_conf(enforced), Planner())
    run.run()
    assert starts(run) == {1: 1, 2: 21}
    assert run.runs == recording.runs
    free = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    free.run()
    assert starts(free) == {1: 1, 2: 2}


def test_another_topology_may_be_tried(tmp_path: Path) -> None:
    """Recorded without a network; --switches=1 means something once there is one."""
    jobs = [
        simple(0, "ann", 1, 60, 40),
        simple(1, "bob", 2, 60, 10, switches="1"),  # two of three free nodes, under one switch
        simple(2, "cay", 2, 60, 10, switches="1"),
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=()))
    conf = parse_slurm_conf(CONF + "TopologyPlugin=topology/tree\n")
    text = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=t Switches=s[1-2]\n"
    run = JournalRun(recording, conf, Planner(), [parse_topology_conf(text)])
    run.run()
    assert starts(run) == {1: 0, 2: 1, 3: 11}
    plain = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    plain.run()
    assert plain.runs == recording.runs


def test_idle_years_pass_at_once(tmp_path: Path) -> None:
    """What is due for reservations and nodes happens before the next job comes."""
    year_min = 365 * 1440
    jobs = [
        simple(0, "ann", 1, 30, 20),
        simple(10 * year_min, "bob", 4, 30, 20),  # a reservation of that hour has n1
        simple(20 * year_min, "cay", 4, 30, 20),  # n2 is back from its drain
    ]
    begins_us = BEGIN_US + (10 * year_min - 10) * MINUTE_US
    course = {"starttime": str(begins_us), "duration": "60", "nodes": "n1", "users": "eve"}
    drain = {"state": "DRAIN", "reason": "disk", "resumeafter": str(5 * year_min * 60)}
    deeds: list[tuple[float, Struct]] = [
        (30, UpdateReservation(bytes(16), "course", course, True)),
        (10 * year_min + 100, UpdateNodes(bytes(16), "n2", drain)),
    ]
    recording = read_recording(record(tmp_path / "state", jobs=jobs, deeds=deeds))
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    began = starts(run)
    assert began[1] == 0 and began[3] == 20 * year_min
    assert began[2] == pytest.approx(10 * year_min + 50, abs=1)
    assert run.world.actions_run < 2000

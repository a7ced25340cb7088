"""What is fuzzed: every decoder and parser that is given bytes or text of others.

A target takes any bytes. It either works or raises one of the errors its documentation names;
anything else is a finding. `make fuzz` feeds targets by coverage, `make test` replays the corpus.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pyslurm_ng.base import bind_words, cron, dates, gpu_bind, hostlist, job_ids, tres, units
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import x11
from pyslurm_ng.cli.submit.directives import apply_directives
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.conf import (
    cgroup_conf,
    gres_conf,
    lexer,
    slurm_conf,
    slurmdbd_conf,
    topology_conf,
    topology_yaml,
)
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.crontabs.times import next_us
from pyslurm_ng.ctld.rules.queue import dependency_text
from pyslurm_ng.d.stepd.pmi_messages import BadPmiMessage, PmiInput, unpack_pairs
from pyslurm_ng.dbd.admin import words as admin_words
from pyslurm_ng.journal import checkpoint, segment
from pyslurm_ng.kernels.records import pack
from pyslurm_ng.model import events
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.request import extra, features
from pyslurm_ng.sim import workload
from pyslurm_ng.wire import auth, auth_slurm, frame, messages, mpi_frames, step_io, xauthority
from pyslurm_ng.wire.dbd_messages import Assignment
from tests.fuzz.messages import beyond, least as body_of

CLUSTER = Cluster()
NOW_S = 1_790_000_000
KEY = auth_slurm.Key.from_secret(b"k" * 64)


@dataclass(frozen=True, slots=True)
class Target:
    """One entrance.

    Attributes:
        run: takes any bytes; raises only on a finding.
        seeds: inputs worth beginning with.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...] = ()


def _utf8(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _parser(
    name: str,
    parse: Callable[[str], object],
    errors: type[BaseException] | tuple[type[BaseException], ...],
    *seeds: str,
) -> Target:
    """Return the target of a function of one text."""

    def run(data: bytes) -> None:
        with contextlib.suppress(errors):
            parse(_utf8(data))

    return Target(name, run, tuple(seed.encode() for seed in seeds))


# Frames and messages ------------------------------------------------------------------------------


def _frame(data: bytes) -> None:
    """Cut a stream at odd places; what is delivered was admitted first, and no longer than said."""
    admitted: list[int] = []

    def admit(kind: str, flags: int, sequence: int, credential: bytes, length: int) -> object:
        assert len(credential) <= frame.MAX_CREDENTIAL_BYTES
        admitted.append(length)
        return kind

    def deliver(kind: str, flags: int, sequence: int, ticket: object, body: bytes) -> None:
        assert ticket == kind
        assert len(body) == admitted[-1]

    parser = frame.Parser(admit, deliver)
    step = 1 + data[0] % 61 if data else 1
    with contextlib.suppress(frame.BadFrame):
        for at in range(1, len(data), step):
            parser.feed(data[at : at + step])
            assert parser.pending_bytes <= len(data)


SEED_BYTES = 300
KINDS = tuple(row.kind for row in messages.rows())


def _message(data: bytes) -> None:
    """The first two bytes choose the kind; replies are refused as requests."""
    if len(data) < 2:
        return
    kind = KINDS[int.from_bytes(data[:2], "big") % len(KINDS)]
    body = data[2:]
    with contextlib.suppress(messages.MessageError):
        decoded = messages.decode_request(kind, body)
        assert messages.decode_request(kind, messages.encode(decoded)) == decoded
    with contextlib.suppress(messages.MessageError):
        messages.decode_reply(kind, body)


def _message_seeds() -> tuple[bytes, ...]:
    """The smallest valid body of each kind, and one with each of its fields at a bound."""
    seeds = []
    for index, kind in enumerate(KINDS):
        head = index.to_bytes(2, "big")
        if messages.row(kind).is_reply:
            seeds.append(head + b"\x80")
            continue
        cases = [body_of(messages.row(kind).schema)]
        cases += [case.at_bound for case in beyond(kind)]
        packed = (msgspec.msgpack.encode(case) for case in cases)
        seeds += [head + body for body in packed if len(body) < SEED_BYTES]
    return tuple(dict.fromkeys(seeds))


def _pmi_messages(data: bytes) -> None:
    feed = PmiInput()
    feed.feed(data)
    with contextlib.suppress(BadPmiMessage):
        while feed.take() is not None:
            pass
    with contextlib.suppress(ValueError):
        unpack_pairs(data)


def _mpi_frame(data: bytes) -> None:
    with contextlib.suppress(step_io.BadStepFrame):
        mpi_frames.parse(data)


def _step_frames(data: bytes) -> None:
    frames = step_io.Frames()
    step = 1 + data[0] % 61 if data else 1
    with contextlib.suppress(step_io.BadStepFrame):
        for at in range(1, len(data), step):
            for _, _, body in frames.feed(data[at : at + step]):
                step_io.numbers(body)


def _x11_first_bytes(data: bytes) -> None:
    forward = object.__new__(x11.X11Forward)
    forward.cookie, forward._server = bytes(16), object.__new__(x11.XServer)
    forward._server.cookie = b"c" * 16
    with contextlib.suppress(PermissionError):
        assert len(forward._checked(data)) <= len(data) + 16


def _xauthority(data: bytes) -> None:
    assert len(xauthority.cookie_of(data, b"h", b"1")) <= len(data)


def _cron(text: str) -> None:
    times, _ = cron.split_spec(text)
    due_us = next_us(cron.parse(times), NOW_S * 1_000_000, UTC)
    assert not due_us or due_us > NOW_S * 1_000_000


def _token(data: bytes) -> None:
    authenticator = auth_slurm.TokenAuthenticator(KEY, "c", "h", 0, lambda: NOW_S * 1_000_000)
    try:
        authenticator.admit(data, "Ping", "slurmctld")
    except auth.AuthError:
        return
    raise AssertionError("a token that nobody signed was admitted")


# Files --------------------------------------------------------------------------------------------


def _journal_header(data: bytes) -> None:
    with contextlib.suppress(segment.JournalError):
        segment.decode_header(Path("00000001-0000000000000001.journal"), data)


def _journal_frames(data: bytes) -> None:
    segment.scan_frames(bytes(16), data, segment.Position(1, 0, 0))


def _batch(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
        decode_batch(data)


def _file(read: Callable[[Path], object], *errors: type[BaseException]) -> Callable[[bytes], None]:
    """Return a target that puts its bytes into a file first."""

    def run(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(prefix="psng-fuzz-") as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(*errors):
                read(Path(file.name))

    return run


def _yaml(path: Path) -> None:
    topology_yaml.load_topology_yaml(os.fspath(path), ("n1", "n2", "n3", "n4"))


# Texts --------------------------------------------------------------------------------------------


def _hosts(text: str) -> None:
    names = hostlist.expand(text)
    # Names of hosts hold no blanks or control characters; those that do come back in parts.
    # Few, since to fold and to expand many takes seconds where coverage is measured.
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if is_plain and len(names) <= 2_000 and len(set(names)) == len(names):
        assert hostlist.expand(hostlist.fold(names)) == names


def _directives(data: bytes) -> None:
    if b"\0" in data:
        return  # sbatch refuses such scripts before it reads them
    options = Options("sbatch")
    with contextlib.suppress(OptionError, OSError):
        apply_directives(options, b"#!/bin/sh\n" + data, "job.sh", False)


def _dependency(text: str) -> None:
    assert dependency_text.parse_dependency(CLUSTER, text) is not None


def _sacctmgr(text: str) -> None:
    name, _, value = text.partition("=")
    for entity in ("user", "account", "qos", "cluster"):
        with contextlib.suppress(admin_words.UnknownWordError):
            admin_words.read_where(entity, [Assignment(name, "=", value)])


SLURM_CONF = "ClusterName=c\nSlurmctldHost=h\nNodeName=n[1-4] CPUs=4\nPartitionName=p Nodes=ALL\n"
CONF_ERRORS = (lexer.ConfErrors,)

TARGETS: tuple[Target, ...] = (
    Target("frame", _frame, (b"\x05" + frame.pack_frame("Ping", 7, b"\x80", 0, b"cred"),)),
    Target("message", _message, _message_seeds()),
    Target("pmi_messages", _pmi_messages, (b"cmd=init pmi_version=1\ncmd=put key=k value=v\n",)),
    Target("mpi_frame", _mpi_frame, (pack({"do": "abort", "text": "x", "status": 1}),)),
    Target("step_frame", _step_frames, (b"\x07" + step_io.pack_number(step_io.SIGNAL, 0, 15),)),
    Target("x11_first_bytes", _x11_first_bytes, (
        b"l\0\x0b\0\0\0\x12\0\x10\0\0\0MIT-MAGIC-COOKIE-1\0\0" + bytes(16),
    )),
    Target("xauthority", _xauthority, (
        xauthority.pack_entry(xauthority.Entry(256, b"h", b"1", xauthority.COOKIE, bytes(16))),
    )),
    Target("token", _token, (b"\x01" * 40,)),
    Target("journal_header", _journal_header, (bytes(64),)),
    Target("journal_frames", _journal_frames, (bytes(64),)),
    Target("event_batch", _batch, (
        encode_batch([events.EpochStarted(time_us=1, epoch=2, host="h")]),
    )),
    Target("checkpoint", _file(checkpoint.read_checkpoint, segment.JournalError), (bytes(80),)),
    Target("topology_yaml", _file(_yaml, lexer.ConfErrors), (
        b"- topology: t\n  tree:\n    switches:\n      - switch: s\n        nodes: n[1-4]\n",
    )),
    Target("directives", _directives, (
        b"#SBATCH -N2 --time=1-0 --gres=gpu:a:2 --mem=3G -J 'a b'\n#SBATCH hetjob\n",
        b"#PBS -l nodes=2:ppn=3,walltime=1:00:00\n#BSUB -n 4 -W 10\n",
    )),
    _parser("cron", _cron, cron.CronError, "*/5 8-17 * jan,feb mon-fri work", "@daily x"),
    _parser("hostlist", _hosts, hostlist.HostlistError, "n[001-003,7]x[1-2],m", "a[1-3"),
    _parser("hostlist_count", hostlist.count, hostlist.HostlistError, "n[1-9999999999]"),
    _parser("tres", tres.parse_tres, tres.TresError, "cpu=2,mem=3G,gres/gpu:a=1"),
    _parser("gres", tres.parse_gres, tres.TresError, "gpu:a100:2(S:0-1),shard:3"),
    _parser("node_gres", tres.parse_node_gres, tres.TresError, "gpu:a100:4(S:0),mps:100"),
    _parser("tres_per_task", tres.parse_tres_per_task, tres.TresError, "cpu=2,gres/gpu:1"),
    _parser("tres_weights", tres.parse_weights, tres.TresError, "CPU=1.0,Mem=0.25G,GRES/gpu=2"),
    _parser("memory", units.parse_mem_mib, units.UnitError, "3G", "0"),
    _parser("count", units.parse_count, units.UnitError, "3k"),
    _parser("time_limit", units.parse_time_limit_s, units.UnitError,
            "1-02:03:04", "UNLIMITED", "90"),
    _parser("date", lambda text: dates.parse_date(text, NOW_S), dates.DateError,
            "now+1hour", "2026-11-22T10:00", "teatime tomorrow", "11/22/26-10:00"),
    _parser("job_id", job_ids.parse_job_id, job_ids.JobIdError, "12_[1-4:2%3].batch", "5+1.0"),
    _parser("cpu_bind", bind_words.cpu_bind, bind_words.BindWordsError, "v,mask_cpu:0x1*2,0xf"),
    _parser("mem_bind", bind_words.mem_bind, bind_words.BindWordsError, "map_mem:0,1,nosort"),
    _parser("gpu_bind", gpu_bind.parse_gpu_bind, gpu_bind.GpuBindError, "map:0,1*2", "per_task:2"),
    _parser("constraint", features.ways, features.FeatureError, "[a*2&b*1]|(c&d)", "a&!b"),
    _parser("extra", extra.parse, extra.ExtraError, '(a=1&b>"x")|c!=2'),
    _parser("dependency", _dependency, (), "afterok:1:2_3+4,singleton", "after:5?afternotok:6"),
    _parser("sacctmgr_words", _sacctmgr, (), "MaxTRES=cpu=3,mem=4", "grpwall=-1"),
    _parser("slurm_conf", lambda text: slurm_conf.parse_slurm_conf(SLURM_CONF + text), CONF_ERRORS,
            "NodeName=n5 Sockets=2 CoresPerSocket=4\nSchedulerParameters=bf_window=3\n"),
    _parser("gres_conf", lambda text: gres_conf.parse_gres_conf(text, ("gpu",)), CONF_ERRORS,
            "NodeName=n[1-2] Name=gpu Type=a File=/dev/nvidia[0-3] Cores=0-3\n"),
    _parser("topology_conf", topology_conf.parse_topology_conf, CONF_ERRORS,
            "SwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Switches=s1\n", "BlockName=b Nodes=n1\n"),
    _parser("cgroup_conf", cgroup_conf.parse_cgroup_conf, CONF_ERRORS, "ConstrainCores=yes\n"),
    _parser("slurmdbd_conf", slurmdbd_conf.parse_slurmdbd_conf, CONF_ERRORS,
            "DbdHost=h\nStorageType=accounting_storage/mysql\n"),
    _parser("swf", lambda text: workload.parse_swf(text.splitlines()), (),
            "; Version: 2\n1 0 10 100 4 -1 -1 4 200 -1 1 1 1 1 1 1 -1 -1\n"),
)  # fmt: skip


def find(name: str) -> Target:
    """Return a target by name. Raises KeyError."""
    return {target.name: target for target in TARGETS}[name]


def fix_clock() -> None:
    """Make texts of times mean the same whenever and wherever an input is replayed."""
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()

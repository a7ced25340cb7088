"""Effects of what slurmd reads: each test changes a key, and what the node does changes."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.numbers import REQ_OPEN_TRUNCATE
from pyslurm_ng.ctld.nodes.orders import credential_of
from pyslurm_ng.d.__main__ import _open_log
from pyslurm_ng.d.controllers.registration import Registration
from pyslurm_ng.d.core.actions import RunEpilog, RunProlog, TellUnkillable
from pyslurm_ng.d.daemon import write_pid_file
from pyslurm_ng.d.host.cgroup import TreeV1
from pyslurm_ng.d.jobs.job_programs import JobPrograms
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.d.node.health import HealthCheck
from pyslurm_ng.d.node.setup import Options, load_setup
from pyslurm_ng.d.requests.service import NodeStreams
from pyslurm_ng.d.spec.job_spec import step_spec
from pyslurm_ng.d.spec.node_setup import Account
from pyslurm_ng.d.spool.spool import Spool
from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.up.ports import free_row
from pyslurm_ng.wire import node_messages as nm
from tests.compat.node_room import CONF, CPUS, Node
from tests.d.stepd.hung_files import HungFiles, hung_files
from tests.d.stepd.supervised import Template
from tests.world.logs import LineLog
from tests.world.site import Site

MIB = 1 << 20


@pytest.fixture
def template() -> Iterator[Template]:
    with tempfile.TemporaryDirectory(prefix="psng-keys-") as name:
        made = Template(Path(name))
        yield made
        made.close()


# Scripts and steps -------------------------------------------------------------------------------


@pytest.mark.parametrize(("wait_s", "status"), [(0, 9), (60, 3 << 8)])
def test_kill_wait(template: Template, wait_s: int, status: int) -> None:
    """KillWait: a script that takes two seconds to end has them, or SIGKILL comes at once."""
    node = Node(template.directory, f"KillWait={wait_s}")
    trap = "trap 'read -t 2 <> <(:); exit 3' TERM"
    step = node.started(
        template, f"{trap}\necho ready\nwhile :; do read -t .1 <> <(:); done", "rea"
    )
    step.tell(do="terminate", why="", wait_s=float(node.local().core.kill_wait_s))
    assert step.end()["status"] == status


def test_tasks_may_write_core_files_whatever_slurmd_may(template: Template) -> None:
    """PropagateResourceLimits=NONE: as in Slurm the limit is that of the host, not of a daemon."""
    node = Node(template.directory)
    _, out = node.run(template, "ulimit -Sc; ulimit -Hc")
    soft, hard = out.split()
    assert soft == hard


@pytest.mark.parametrize(("value", "expected"), [(0, "new\n"), (1, "old\nnew\n")])
def test_job_file_append(template: Template, value: int, expected: str) -> None:
    """JobFileAppend=1 keeps what the file of an earlier run holds, unless the job says truncate."""
    node = Node(template.directory, f"JobFileAppend={value}")
    for request, text in (({}, expected), ({"flags": REQ_OPEN_TRUNCATE}, "new\n")):
        (template.directory / "out").write_text("old\n")
        assert node.run(template, "echo new", **request)[1] == text


def test_slurmd_spool_dir(template: Template) -> None:
    """SlurmdSpoolDir, with %n for the node's name, is where scripts are kept while they run."""
    _, out = Node(template.directory).run(template, "echo $0")
    assert out.startswith(f"{template.directory}/job")
    node = Node(template.directory, f"SlurmdSpoolDir={template.directory}/of_%n")
    Spool(node.setup.spool)
    assert node.run(template, "echo $0")[1].startswith(f"{template.directory}/of_n1/job")


@pytest.mark.parametrize("value", ["", "JobAcctGatherType=jobacct_gather/linux"])
def test_job_acct_gather_type(template: Template, value: str) -> None:
    """JobAcctGatherType: without it nothing measures what tasks use."""
    end, _ = Node(template.directory, value).run(template, "python3 -c 'x = bytearray(60 << 20)'")
    if not value:
        assert end["usage"] is None
    else:
        ((_, used),) = end["usage"]
        assert used["rss_kib"] > 50 << 10


def test_job_acct_gather_frequency(tmp_path: Path) -> None:
    """JobAcctGatherFrequency: how often a supervisor samples, 0 for never; jobs may say other."""
    kind = "JobAcctGatherType=jobacct_gather/linux\n"
    for value, every_s in (("task=7", 7), ("network=3,task=5", 5), ("0", 0), ("energy=9", 30)):
        node = Node(tmp_path, f"{kind}JobAcctGatherFrequency={value}")
        assert node.batch("")["acct_every"] == every_s
        assert node.batch("", acctg_freq="task=2")["acct_every"] == 2


@pytest.mark.parametrize("value", ["", "TaskPlugin=task/affinity"])
def test_task_affinity(template: Template, value: str) -> None:
    """TaskPlugin=task/affinity keeps a script on the CPUs of its cores."""
    node = Node(template.directory, value)
    _, out = node.run(template, "nproc")
    core = len(node.setup.node.host.cpus[0])
    assert int(out) == (core if value else CPUS)


@pytest.mark.parametrize("where", ["node", "partition"])
def test_cpu_bind_of_a_line(tmp_path: Path, where: str) -> None:
    """CpuBind of a node's or a partition's line binds steps that have no option of their own."""

    def kind(node: str, partition: str) -> str:
        conf = (
            f"NodeName=b[1-2] CPUs=2 {node}\nNodeName=b3 CPUs=2\n"
            f"PartitionName=p Nodes=b[1-3] {partition}"
        )
        site = Site(conf)
        job = site.running(partition="p", ntasks=4, nodes_min=2, nodes_max=2)
        credential = credential_of(site.cluster, job, wall_us=0, nonce=b"", addresses=((), ""))
        return credential.bind_kind

    lines = {"node": ("CpuBind=none", ""), "partition": ("", "CpuBind=none")}
    assert kind("", "") == ""
    assert kind(*lines[where]) == "none"
    assert kind("CpuBind=core", "CpuBind=none") == "core"
    node = Node(tmp_path, "TaskPlugin=task/affinity")
    assert node.step()["tasks"][0]["cpus"]
    credential = msgspec.structs.replace(node.credential(0), bind_kind="none")
    launch = nm.LaunchStep(credential=b"", cwd="/", programs=[nm.Program(["true"])])
    bound = step_spec(node.setup.node, credential, launch, Account((os.getgid(),)))
    assert not bound["tasks"][0]["cpus"]


def test_oom_kill_step(tmp_path: Path) -> None:
    """TaskPluginParam=OOMKillStep ends a step with its first task that is out of memory."""
    assert Node(tmp_path).step()["oom_kill_step"] is False
    node = Node(tmp_path, "TaskPluginParam=OOMKillStep")
    assert node.step()["oom_kill_step"] is True
    assert b"SLURM_OOM_KILL_STEP=1" in node.step()["env"]
    assert node.step(oom_kill_step=0)["oom_kill_step"] is False


@pytest.mark.root
def test_unkillable_step_timeout(template: Template) -> None:
    """UnkillableStepTimeout: how long after SIGKILL a step is given up; usually a minute."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting FUSE needs root and /dev/fuse")
    node = Node(template.directory, "UnkillableStepTimeout=1")
    mount = template.directory / "hung"
    try:
        with hung_files(mount) as hung:
            _given_up(template, node, hung)
    except OSError as error:
        pytest.skip(f"FUSE cannot be mounted here: {error}")


def _given_up(template: Template, node: Node, hung: HungFiles) -> None:
    step = template.start(node.batch("sleep 3600", std_out=str(hung.path / "out")))
    assert hung.heard.wait(30)
    step.tell(do="terminate", why="", wait_s=0.0)
    said: dict[str, Any] = {"did": ""}
    while said["did"] != "unkillable":
        said = step.hear()
        assert said, "it ended before its processes did"
    hung.release()
    step.end()


# Programs ----------------------------------------------------------------------------------------


@pytest.fixture
def slurmd(tmp_path: Path) -> Iterator[Any]:
    """Return a function from lines of slurm.conf to a slurmd that only runs programs."""
    loop = asyncio.new_event_loop()

    def made(text: str) -> Any:
        node = Node(tmp_path, text).local(LineLog())
        programs = JobPrograms(node, lambda actions: None)
        return SimpleNamespace(node=node, programs=programs, run=loop.run_until_complete)

    yield made
    loop.close()


def program(directory: Path, text: str) -> str:
    path = directory / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("key", "limits"),
    [
        ("Prolog", "PrologTimeout=1"),
        ("Prolog", "PrologEpilogTimeout=1"),
        ("Prolog", "PrologEpilogTimeout=600\nPrologTimeout=1"),
        ("Epilog", "EpilogTimeout=1"),
        ("Epilog", "PrologEpilogTimeout=1"),
        ("HealthCheckProgram", "HealthCheckTimeout=1"),
        ("UnkillableStepProgram", "PrologEpilogTimeout=1"),
    ],
)
def test_a_program_has_so_long(slurmd: Any, tmp_path: Path, key: str, limits: str) -> None:
    """A program that hangs is killed after the time that the configuration gives it."""
    path = program(tmp_path, "sleep 3600")
    daemon = slurmd(f"{key}={path}\n{limits}")
    credential = Node(tmp_path, f"{key}={path}\n{limits}").credential()
    works = {
        "Prolog": lambda: daemon.programs.prolog(RunProlog(1, 0, credential)),
        "Epilog": lambda: daemon.programs.epilog(RunEpilog(1, 0, credential)),
        "HealthCheckProgram": lambda: HealthCheck(
            daemon.node.log, "n1", lambda: daemon.node.conf, lambda: "IDLE", {}
        )._run(),
        "UnkillableStepProgram": lambda: daemon.programs.unkillable(TellUnkillable(1, STEP_BATCH)),
    }
    daemon.run(works[key]())
    assert any(f"{path}: timeout after 1 s" in line for line in daemon.node.log.lines)


def test_prep_plugins(slurmd: Any, tmp_path: Path) -> None:
    """PrEpPlugins=prep/script: the programs of Prolog and Epilog run, one after the other."""
    runs = tmp_path / "runs"
    path = program(tmp_path, f"echo $SLURM_SCRIPT_CONTEXT $SLURM_JOB_EXIT_CODE2 >> {runs}")
    text = f"PrEpPlugins=prep/script\nProlog={path}\nEpilog={path}"
    daemon, credential = slurmd(text), Node(tmp_path, text).credential()
    daemon.run(daemon.programs.prolog(RunProlog(1, 0, credential)))
    daemon.run(daemon.programs.epilog(RunEpilog(1, 0, credential, 3 << 8)))
    assert runs.read_text() == "prolog_slurmd\nepilog_slurmd 3:0\n"


def test_unkillable_step_program(slurmd: Any, tmp_path: Path) -> None:
    """UnkillableStepProgram gets the job and the step of which a process outlives SIGKILL."""
    path = program(tmp_path, f"echo $SLURM_JOB_ID $SLURM_STEP_ID > {tmp_path}/told")
    daemon = slurmd(f"UnkillableStepProgram={path}")
    daemon.run(daemon.programs.unkillable(TellUnkillable(7, 3)))
    assert (tmp_path / "told").read_text() == "7 3\n"


# The daemon --------------------------------------------------------------------------------------


def test_slurmd_log_file_and_levels(tmp_path: Path) -> None:
    """SlurmdLogFile takes lines up to SlurmdDebug, syslog those up to SlurmdSyslogDebug."""
    sent: list[str] = []
    for level, words in (("info", "one"), ("debug", "one two")):
        name = f"{level}_%n.log"
        text = f"SlurmdLogFile={tmp_path}/{name}\nSlurmdDebug={level}\nSlurmdSyslogDebug=error"
        node = Node(tmp_path, text)
        log = DaemonLog("slurmd", lambda priority, line: sent.append(line))
        _open_log(log, node.options, node.setup)
        log.info("one")
        log.debug("two")
        log.stderr_level = 0
        log.error("bad")
        lines = (tmp_path / f"{level}_n1.log").read_text().splitlines()
        assert " ".join(line.split()[-1] for line in lines) == f"{words} bad"
    assert [line for line in sent if "bad" not in line] == []
    assert len(sent) == 2


def test_slurmd_pid_file(tmp_path: Path) -> None:
    """SlurmdPidFile holds slurmd's process id; %n is the node's name."""
    node = Node(tmp_path, f"SlurmdPidFile={tmp_path}/run/%n.pid")
    file = write_pid_file(node.setup.pid_file, DaemonLog("slurmd"))
    assert (tmp_path / "run" / "n1.pid").read_text() == f"{os.getpid()}\n"
    assert file is not None
    file.remove()


def test_slurmd_port(tmp_path: Path) -> None:
    """SlurmdPort is where a node listens whose line has no Port."""
    port = free_row(1)
    node = Node(tmp_path, f"SlurmdPort={port}\nSlurmdPidFile={tmp_path}/n1.pid")
    identity: Any = SimpleNamespace(authenticator=object(), signer=None)
    runner: Any = SimpleNamespace(fork_receiver=None)
    hold = SimpleNamespace(hold=None)
    namespaces = SimpleNamespace(hold=hold.hold, pin_of=lambda credential: "")
    actions: Any = SimpleNamespace(groups=hold, namespaces=namespaces)
    unused: Any = None

    async def listens() -> None:
        streams = NodeStreams(
            node.local(),
            identity,
            runner,
            unused,
            actions,
            unused,
            unused,
            status=unused,
            is_linked=lambda: True,
            relay=unused,
        )
        await streams.listen()
        with socket.create_connection(("127.0.0.1", port), 30) as peer:
            assert peer.getpeername()[1] == port
        await streams.close()

    asyncio.run(listens())


def test_tmp_fs(tmp_path: Path) -> None:
    """TmpFS is the file system whose size a node reports as its TmpDisk."""

    def disk_mib(path: str) -> int:
        node = Node(tmp_path, f"TmpFS={path}")
        return Registration(node.local(), node.options).facts().tmp_disk_mib

    assert disk_mib("/tmp") > 0
    assert disk_mib("/proc") == 0


def test_node_hostname(tmp_path: Path) -> None:
    """NodeHostname tells slurmd which node it is, and is where others reach it."""
    host = os.uname().nodename.partition(".")[0]
    path = tmp_path / "slurm.conf"
    for names in (f"{host},other", f"other,{host}"):
        lines = f"NodeName=a,b NodeHostname={names} CPUs={CPUS}\n"
        path.write_text(CONF.format(spool=tmp_path) + lines)
        line = load_setup(Options(str(path))).line
        assert line.name == "ab"[names.split(",").index(host)]
        assert line.address == host


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    """slurmd names its file and does not start: a job would get a GPU that fell out."""
    path, gpu = tmp_path / "slurm.conf", tmp_path / "gpu1"
    lines = f"GresTypes=gpu\nNodeName=n1 CPUs={CPUS} Gres=gpu:2\n"
    path.write_text(CONF.format(spool=tmp_path) + lines)
    (tmp_path / "gres.conf").write_text(f"Name=gpu File=/dev/zero,{gpu}\n")
    options = Options(str(path), node_name="n1")
    with pytest.raises(BadSetup) as refused:
        load_setup(options)
    said = [f"can't stat gres.conf file {gpu}: No such file or directory"]
    assert refused.value.lines == said
    gpu.touch()
    assert load_setup(options).node.devices[0].count == 2


# Control groups ----------------------------------------------------------------------------------

_FILES = {
    "freezer": ("cgroup.procs",),
    "memory": (
        "cgroup.procs",
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.swappiness",
    ),
    "cpuset": ("cgroup.procs", "cpuset.mems", "cpuset.cpus"),
    "devices": ("cgroup.procs", "devices.deny"),
}


class Groups:
    """What looks like a mount of control groups of version 1, for one job of the node n1."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        for controller, names in _FILES.items():
            self._level(mount / controller, names)
            self._level(mount / controller / "slurm_n1", names)

    @staticmethod
    def _level(directory: Path, names: tuple[str, ...]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name in names:
            (directory / name).write_text("0" if name.startswith("cpuset") else "")

    def made(self, plan: dict[str, Any] | None) -> dict[str, str]:
        """Return what a supervisor writes for a plan into the files of its step, by name."""
        assert plan is not None
        for group in (plan["job"], plan["step"]):
            for controller, group_path in group.items():
                for directory in (Path(group_path).parent, Path(group_path)):
                    self._level(directory, _FILES[controller])
        for handle in StepCgroup(plan).make():
            os.close(handle)
        paths = [
            (Path(group_path), name)
            for kind, group_path in plan["step"].items()
            for name in _FILES[kind]
        ]
        return {name: (group_path / name).read_text() for group_path, name in paths}


def grouped(directory: Path, cgroup: str, text: str = "TaskPlugin=task/cgroup") -> Node:
    """Return a node whose control groups would be below a directory of the test's."""
    (directory / "gres.conf").write_text("Name=gpu File=/dev/zero\n")
    mount = f"CgroupMountpoint={directory}/groups\n"
    words = "Gres=gpu:1 RealMemory=2000"
    return Node(directory, f"{text}\nGresTypes=gpu", mount + cgroup, node=words)


@pytest.mark.parametrize(
    ("lines", "file", "expected"),
    [
        ("ConstrainRAMSpace=yes", "memory.limit_in_bytes", str(100 * MIB)),
        ("ConstrainRAMSpace=yes\nAllowedRAMSpace=150", "memory.limit_in_bytes", str(150 * MIB)),
        ("ConstrainRAMSpace=yes\nMinRAMSpace=400", "memory.limit_in_bytes", str(400 * MIB)),
        ("ConstrainRAMSpace=yes", "memory.memsw.limit_in_bytes", ""),
        (
            "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes",
            "memory.memsw.limit_in_bytes",
            str(100 * MIB),
        ),
        (
            "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=50",
            "memory.memsw.limit_in_bytes",
            str(150 * MIB),
        ),
        (
            "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nMemorySwappiness=10",
            "memory.swappiness",
            "10",
        ),
        ("ConstrainRAMSpace=yes\nMemorySwappiness=10", "memory.swappiness", ""),
        ("ConstrainRAMSpace=yes\nMaxRAMPercent=2.5", "memory.limit_in_bytes", str(50 * MIB)),
        (
            "ConstrainSwapSpace=yes\nAllowedSwapSpace=50",
            "memory.limit_in_bytes",
            str(150 * MIB),
        ),
        (
            "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nMaxRAMPercent=2.5\n"
            "AllowedSwapSpace=100\nMaxSwapPercent=1",
            "memory.memsw.limit_in_bytes",
            str(70 * MIB),
        ),
        ("ConstrainDevices=yes", "devices.deny", "c 1:5 rwm"),
    ],
)
def test_a_step_is_confined(tmp_path: Path, lines: str, file: str, expected: str) -> None:
    """cgroup.conf: a job of 100 MiB without a GPU is confined by the files of its group.

    Without the keys they are empty.
    """
    groups = Groups(tmp_path / "groups")
    plan = grouped(tmp_path, lines).batch("")["cgroup"]
    assert groups.made(plan).get(file, "") == expected
    assert groups.made(grouped(tmp_path, "").batch("")["cgroup"]).get(file, "") == ""


def test_constrain_cores(tmp_path: Path) -> None:
    """ConstrainCores=yes: the step's own CPUs, not those of the group above."""
    groups = Groups(tmp_path / "groups")
    (groups.mount / "cpuset" / "slurm_n1" / "cpuset.cpus").write_text("0-99")
    node = grouped(tmp_path, "ConstrainCores=yes")
    own = ",".join(map(str, node.setup.node.host.cpus[0]))
    assert groups.made(node.batch("")["cgroup"])["cpuset.cpus"] == own
    assert "cpuset.cpus" not in groups.made(grouped(tmp_path, "").batch("")["cgroup"])


def test_task_cgroup(tmp_path: Path) -> None:
    """TaskPlugin=task/cgroup confines; with control groups for tracking alone nothing is."""
    Groups(tmp_path / "groups")
    lines = "ConstrainRAMSpace=yes\nConstrainCores=yes\nConstrainDevices=yes"
    plan = grouped(tmp_path, lines).batch("")["cgroup"]
    assert plan["step_limits"].keys() == {"mem_mib", "cpus", "denied"}
    plan = grouped(tmp_path, lines, "ProctrackType=proctrack/cgroup").batch("")["cgroup"]
    assert plan["step_limits"] == {}


def test_proctrack_type_and_cgroup_plugin(tmp_path: Path) -> None:
    """ProctrackType=proctrack/cgroup keeps a step in a group, proctrack/linuxproc does not.

    CgroupPlugin says of which version, or none; CgroupMountpoint where.
    """
    groups = Groups(tmp_path / "groups")
    by_group, by_descent = "ProctrackType=proctrack/cgroup", "ProctrackType=proctrack/linuxproc"
    plan = grouped(tmp_path, "", by_group).batch("")["cgroup"]
    assert plan["step"]["freezer"].startswith(f"{groups.mount}/freezer/slurm_n1/")
    assert grouped(tmp_path, "", by_descent).batch("")["cgroup"] is None
    tree = grouped(tmp_path, "CgroupPlugin=cgroup/v1", by_group).setup.node.tree
    assert isinstance(tree, TreeV1)
    for plugin in ("cgroup/v2", "disabled"):
        setup = grouped(tmp_path, f"CgroupPlugin={plugin}", by_group).setup
        assert setup.node.tree is None
        assert any(str(groups.mount) in line for line in setup.warnings)
        with pytest.raises(BadSetup, match="TaskPlugin=task/cgroup: control groups in"):
            grouped(tmp_path, f"CgroupPlugin={plugin}")


def test_profile_hdf5_dir(tmp_path: Path) -> None:
    """slurmd warns of a directory that is not there: profiles would be lost."""
    pytest.importorskip("h5py")
    (tmp_path / "acct_gather.conf").write_text(f"ProfileHDF5Dir={tmp_path}/profiles\n")
    text = "AcctGatherProfileType=acct_gather_profile/hdf5"
    warning = f"ProfileHDF5Dir={tmp_path}/profiles: no such directory, so profiles of jobs are lost"
    assert warning in Node(tmp_path, text).setup.warnings
    (tmp_path / "profiles").mkdir()
    assert warning not in Node(tmp_path, text).setup.warnings

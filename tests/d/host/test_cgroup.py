"""Control groups on this machine's own kernel, as root."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

import pytest

from pyslurm_ng.d.host import device_filter
from pyslurm_ng.d.host.cgroup import Group, Limits, Tree, TreeV2, detect
from pyslurm_ng.d.spool.step_contract import CgroupPlan
from pyslurm_ng.d.stepd import step_processes
from pyslurm_ng.d.stepd.step_cgroup import StepCgroup, leave_job
from pyslurm_ng.d.stepd.step_writer import StepWriter
from pyslurm_ng.daemon.process_tree import descendants

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups need root"),
]
NODE = f"test{os.getpid()}"


def finish(process: subprocess.Popen[bytes]) -> int:
    """Return how a process ended, and let go of its pipe."""
    assert process.stdout is not None
    status = process.wait(30)
    process.stdout.close()
    return status


@pytest.fixture
def tree() -> Iterator[Tree]:
    """The version this kernel offers."""
    hierarchy = detect("/sys/fs/cgroup", "autodetect", NODE)
    if hierarchy is None:
        pytest.skip("control groups cannot be written here")
    yield hierarchy
    job = hierarchy.job(7, 1000)
    job.kill()
    job.remove()
    for directory in job.directories.values():
        above = os.path.dirname(directory)
        while NODE in above:
            if os.path.isdir(above):
                os.rmdir(above)
            above = os.path.dirname(above)


def start(group: Group, script: str) -> subprocess.Popen[bytes]:
    """Run a shell script as a member of `group`."""
    join = " ".join(f"echo 0 > {path};" for path in group.join_files())
    return subprocess.Popen(["/bin/sh", "-c", join + script], stdout=subprocess.PIPE)


def wait_for_line(process: subprocess.Popen[bytes]) -> bytes:
    """Return the first line a process writes: then it is ready."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_escaped_processes_are_found_and_killed(tree: Tree) -> None:
    """RELIABILITY 29: a double fork with its own session is still a member."""
    group = tree.step(7, 1000, "0")
    group.create(Limits())
    process = start(group, "setsid sh -c 'sleep 60 & sleep 60' & echo up; sleep 60")
    assert wait_for_line(process) == b"up"
    assert process.pid in group.pids()
    assert group.kill()
    assert finish(process) == -signal.SIGKILL
    assert group.pids() == []
    assert tree.job(7, 1000).remove()


def test_frozen_group_still_dies(tree: Tree) -> None:
    """A suspended job can be cancelled."""
    group = tree.step(7, 1000, "batch")
    group.create(Limits())
    process = start(group, "echo up; sleep 60")
    wait_for_line(process)
    group.set_frozen(True)
    assert group.kill()
    assert finish(process) == -signal.SIGKILL


def test_steps_that_begin_and_end_do_not_take_groups_from_each_other(tree: Tree) -> None:
    """The last step of a job takes the job's group away, while the next step makes its own.

    A step without its group cannot start, and its job failed with 0:9.
    """
    job = tree.job(7, 1000)
    ends = threading.Event()

    def other_steps() -> None:
        while not ends.is_set():
            leave_job(job)

    others = threading.Thread(target=other_steps)
    others.start()
    try:
        for number in range(300):
            plan: CgroupPlan = {
                "version": tree.version,
                "job": job.directories,
                "step": tree.step(7, 1000, str(number)).directories,
                "job_limits": {"mem_mib": 64},
                "step_limits": {},
            }
            step = StepCgroup(plan)
            for descriptor in step.make():
                os.close(descriptor)
            assert memory_limit(job) == 64 << 20
            step.leave()
    finally:
        ends.set()
        others.join()


def memory_limit(group: Group) -> int:
    """Return the memory that a group may have, in bytes."""
    name = "memory.max" if "unified" in group.directories else "memory.limit_in_bytes"
    directory = group.directories.get("unified") or group.directories["memory"]
    return int(Path(directory, name).read_text())


def test_the_end_of_slurmd_leaves_the_groups_of_running_jobs(tree: Tree) -> None:
    """A step has a group before its first task has joined; slurmd may be restarted just then."""
    running, ended = tree.step(7, 1000, "batch"), tree.step(8, 1000, "batch")
    for group in (running, ended):
        group.create(Limits())
    tree.remove_empty({7})
    assert all(map(os.path.isdir, running.directories.values()))
    assert not any(map(os.path.isdir, ended.directories.values()))
    tree.remove_empty()
    assert not any(map(os.path.isdir, running.directories.values()))


def test_memory_limit_kills_and_counts(tree: Tree) -> None:
    """A step over its memory is killed by the kernel, and that is seen afterwards.

    RELIABILITY 27.
    """
    group = tree.step(7, 1000, "1")
    group.create(Limits(mem_mib=32, swap_mib=0))
    process = start(group, "exec python3 -c 'x = b\"x\" * (200 << 20)'")
    assert finish(process) == -signal.SIGKILL
    usage = group.usage()
    assert usage.oom_kills >= 1
    assert usage.peak_kib > 16 << 10


def test_cpus_are_confined(tree: Tree) -> None:
    """A task sees only the CPUs of its step."""
    group = tree.step(7, 1000, "2")
    group.create(Limits(cpus=(0,)))
    process = start(group, "grep Cpus_allowed_list /proc/self/status")
    assert wait_for_line(process).split()[-1] == b"0"
    finish(process)


def test_devices_of_others_cannot_be_opened(tree: Tree, tmp_path: os.PathLike[str]) -> None:
    """A denied device answers EPERM, an allowed one whose driver is absent ENXIO.

    RELIABILITY 71.
    """
    paths = [os.path.join(tmp_path, f"nv{minor}") for minor in (0, 1)]
    for minor, path in enumerate(paths):
        os.mknod(path, 0o020666, os.makedev(195, minor))
    denied = device_filter.device_node(paths[1])
    assert denied == ("c", 195, 1)
    group = tree.step(7, 1000, "3")
    group.create(Limits(denied=(denied,)))
    code = (
        "import errno,sys\n"
        "for path in sys.argv[1:]:\n"
        "    try: open(path, 'rb')\n"
        "    except OSError as error: print(errno.errorcode[error.errno], end=' ')\n"
    )
    process = start(group, f'exec python3 -c "{code}" {" ".join(paths)}')
    assert wait_for_line(process).split() == [b"ENXIO", b"EPERM"]
    finish(process)


def test_unified_hierarchy_kills_freezes_and_filters_devices() -> None:
    """RELIABILITY 71: the parts of version 2 that need no controller work on a mixed mount, too."""
    mount = "/sys/fs/cgroup/unified"
    if not os.path.exists(f"{mount}/cgroup.controllers"):
        pytest.skip("no separate unified mount")
    group = TreeV2(mount, NODE).step(8, 1000, "0")
    try:
        group.create(Limits(denied=(("c", 1, 5),)))
        process = start(group, "head -c1 /dev/zero 2>&1 | grep -c denied; echo up; sleep 60")
        seen = [wait_for_line(process), wait_for_line(process)]
        group.set_frozen(True)
        assert group.kill()
        assert finish(process) == -signal.SIGKILL
        assert seen[-1] == b"up"
    finally:
        group.remove()
        directory = os.path.dirname(group.directories["unified"])
        while directory != mount:
            os.rmdir(directory)
            directory = os.path.dirname(directory)


class _Stepd:
    """The writer of a supervisor that has none."""

    pid = 0


def test_nothing_slips_through_a_suspension(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that forks without end stands still at once, and not even SIGCONT wakes it."""
    group, ticks = tree.step(7, 1000, "5"), tmp_path / "ticks"
    ticks.touch()
    version: Literal[1, 2] = 2 if isinstance(tree, TreeV2) else 1
    plan: CgroupPlan = {
        "version": version, "job": tree.job(7, 1000).directories, "step": group.directories,
        "job_limits": {}, "step_limits": {},
    }  # fmt: skip
    cgroup = StepCgroup(plan)
    for descriptor in cgroup.make():
        os.close(descriptor)
    script = f"echo up; while :; do (setsid sh -c 'echo >> {ticks}' &) ; done"
    process = start(group, script)
    assert wait_for_line(process) == b"up"
    # Below this process there are others, as the database server of other tests.
    monkeypatch.setattr(
        step_processes, "own_descendants", lambda: [process.pid, *descendants(process.pid)]
    )
    processes = step_processes.StepProcesses(cgroup, cast(StepWriter, _Stepd()))

    def goes_on(patience_s: float = 30) -> bool:
        """Return whether anything runs before this time is over."""
        before = ticks.stat().st_size
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if ticks.stat().st_size > before:
                return True
        return False

    try:
        assert goes_on()
        processes.suspend()
        assert not goes_on(0.3)
        processes.signal_all(signal.SIGCONT)
        assert not goes_on(0.3)
        processes.resume()
        assert goes_on()
        processes.suspend()
        processes.thaw()  # what ends a step does first
        processes.signal_all(signal.SIGCONT)
        assert goes_on()
    finally:
        processes.kill()
        finish(process)
    assert group.kill()

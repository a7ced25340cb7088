"""What control groups of version 2 do to steps, as process 1 of an emulated machine.

Started by `test_cgroups_v2`; each check prints `ok NAME` or `FAILED NAME` with a traceback. The
supervisors are real ones, driven as slurmd drives them.
"""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyslurm_ng.base.numbers import END_OUT_OF_MEMORY, STEP_EXTERN
from pyslurm_ng.d.host.cgroup import Limits, TreeV2, detect
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
from tests.d.stepd import supervised
from tests.d.stepd.supervised import Template, until_started
from tests.world.processes import is_running
from tests.world.waiting import wait_until

MOUNT = "/sys/fs/cgroup"
USER = {"uid": 1001, "gid": 1001, "groups": [1001]}
EAT = "import sys; held = bytearray(int(sys.argv[1]) << 20)"
PYTHON = sys.executable
_CHECKS: list[Callable[[Template], None]] = []


def check(function: Callable[[Template], None]) -> Callable[[Template], None]:
    _CHECKS.append(function)
    return function


def plan(template: Template, job: int, step: str = "batch", **limits: Any) -> dict[str, Any]:
    """Return the groups of a step of a job, both with these limits."""
    tree = TreeV2(MOUNT, "n1")
    return {
        "version": 2,
        "job": tree.job(job, 1001).directories,
        "step": tree.step(job, 1001, step).directories,
        "job_limits": limits,
        "step_limits": limits,
    }


def run(template: Template, script: str, **limits: Any) -> tuple[dict[str, Any], str]:
    spec = template.spec("#!/bin/sh\n" + script, **USER)
    spec["cgroup"] = plan(template, spec["job"], **limits)
    end = template.start(spec).end()
    assert not Path(spec["cgroup"]["job"]["unified"]).exists(), "its groups are left"
    return end, Path(spec["tasks"][0]["out"]).read_text()


@check
def version_2_is_used(template: Template) -> None:
    tree = detect(MOUNT, "autodetect", "n1")
    assert tree is not None and tree.version == 2


@check
def memory_beyond_the_limit_is_out_of_memory(template: Template) -> None:
    end, out = run(template, f"{PYTHON} -c '{EAT}' 200", mem_mib=32, swap_mib=0)
    assert end["flags"] & END_OUT_OF_MEMORY, (end, out)
    assert "oom_kill event" in out, out
    end, out = run(template, f"{PYTHON} -c '{EAT}' 16", mem_mib=48, swap_mib=0)
    assert (end["status"], end["flags"] & END_OUT_OF_MEMORY) == (0, 0), (end, out)


@check
def swap_is_limited_beside_memory(template: Template) -> None:
    end, out = run(template, f"{PYTHON} -c '{EAT}' 64", mem_mib=40, swap_mib=80)
    assert (end["status"], end["flags"] & END_OUT_OF_MEMORY) == (0, 0), (end, out)
    end, out = run(template, f"{PYTHON} -c '{EAT}' 64", mem_mib=40, swap_mib=2)
    assert end["flags"] & END_OUT_OF_MEMORY, (end, out)


@check
def a_step_dies_whole_where_that_is_wanted(template: Template) -> None:
    script = f"sleep 301 & {PYTHON} -c '{EAT}' 200; echo survived"
    end, out = run(template, script, mem_mib=32, swap_mib=0, dies_whole=True)
    assert "survived" not in out, out
    assert end["flags"] & END_OUT_OF_MEMORY, (end, out)


@check
def cpus_cannot_be_widened(template: Template) -> None:
    code = "import os; os.sched_setaffinity(0, {0, 1}); print(sorted(os.sched_getaffinity(0)))"
    end, out = run(template, f'{PYTHON} -c "{code}"', cpus=[1])
    assert out == "[1]\n", (end, out)


@check
def devices_of_others_cannot_be_opened(template: Template) -> None:
    """By a BPF program; /dev/zero stands for the GPU of another job."""
    script = "head -c1 /dev/zero >/dev/null && echo zero; head -c1 /dev/urandom | wc -c"
    _, out = run(template, script, denied=[["c", 1, 5]])
    assert "zero\n" not in out.splitlines(keepends=True), out
    assert out.splitlines()[-1].strip() == "1", out
    assert run(template, script)[1].startswith("zero"), "not denied, and not opened"


@check
def nothing_escapes(template: Template) -> None:
    """Double forks, new sessions, and a user who writes to files of control groups."""
    script = (
        "(setsid sh -c 'sleep 302 & sleep 303' & )\nsetsid sleep 304 &\n"
        f"echo $$ 2>/dev/null >{MOUNT}/cgroup.procs || echo denied\nsleep 0.3; exit 0"
    )
    end, out = run(template, script)
    assert out == "denied\n", out
    shown = subprocess.run(["ps"], capture_output=True, text=True, check=True).stdout
    assert "sleep 30" not in shown, shown
    assert end["flags"] & 2, end


@check
def numbers_of_processes_are_limited(template: Template) -> None:
    group = TreeV2(MOUNT, "n1").job(900, 1001)
    group.create(Limits(pids=5))
    script = f"echo 0 >{group.join_files()[0]}; for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert "fork" in done.stderr, done
    assert group.remove()


def _counted(path: Path) -> int:
    return len(path.read_text()) if path.exists() else 0


@check
def suspending_freezes_the_group(template: Template) -> None:
    spec = template.spec("#!/bin/sh\nwhile :; do echo; sleep 0.05; done\n", **USER)
    spec["cgroup"] = plan(template, spec["job"])
    out = Path(spec["tasks"][0]["out"])
    step = template.start(spec)
    until_started(step)
    wait_until(lambda: _counted(out) > 0, "output")
    step.tell(do="suspend")
    events = Path(spec["cgroup"]["step"]["unified"], "cgroup.events")
    wait_until(lambda: "frozen 1" in events.read_text(), "frozen")
    count = _counted(out)
    step.tell(do="ping", tag=1)
    step.hear()
    assert _counted(out) <= count + 1
    step.tell(do="resume")
    wait_until(lambda: _counted(out) > count + 1, "more output")
    step.tell(do="suspend")
    step.tell(do="terminate", why="", wait_s=0.0)
    step.end()


@check
def an_extern_step_holds_and_counts_logins(template: Template) -> None:
    spec = template.spec(step=STEP_EXTERN, tasks=[], programs=[], is_batch=False)
    spec |= {"script": b"", "cgroup": plan(template, spec["job"], "extern", mem_mib=200)}
    step = template.start(spec)
    until_started(step)
    work = "while [ ! -e /go ]; do sleep 0.1; done; setsid sleep 305 & i=0; while [ $i -lt 2000 ]"
    words = ["sh", "-c", work + "; do i=$((i+1)); done"]
    login = subprocess.Popen(words, start_new_session=True)
    start = step_record.start_ticks(login.pid)
    step.tell(do="adopt", tag=1, pid=login.pid, start=start)
    assert step.hear()["problem"] == ""
    Path("/go").touch()
    login.wait()
    remaining = StepCgroup(spec["cgroup"]).pids()
    assert len(remaining) == 1, remaining
    step.tell(do="terminate", why="", wait_s=0.0)
    end = step.end()
    assert end["usage"][0][1]["cpu_us"] > 0, end
    assert not is_running(remaining[0])


def main() -> None:
    """Run all checks."""
    supervised.LIMIT_S = 120.0
    directory = Path("/spool")
    directory.mkdir()
    template = Template(directory)
    directory.chmod(0o1777)  # the outputs are a user's
    for function in _CHECKS:
        began = time.monotonic()
        try:
            function(template)
        except BaseException:  # noqa: BLE001 - the machine ends with the last check
            print(f"FAILED {function.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok {function.__name__} {time.monotonic() - began:.1f} s", flush=True)
    print("all checks were run", flush=True)


if __name__ == "__main__":
    main()

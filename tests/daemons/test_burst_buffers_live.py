"""Whole jobs with a burst buffer on a live cluster, for an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    as_user,
    kill,
    open_directory,
    start_daemon,
    submit_as,
    without_faults,
)
from tests.daemons.live import LiveCluster, start

pytestmark = AS_OTHERS
USER = "games"
SCRIPT = """
local function note(...)
    local file = io.open("{room}/calls", "a")
    file:write(table.concat({{...}}, " ") .. "\\n")
    file:close()
end
local function told(name, id)
    local file = io.open("{room}/by_job", "a")
    file:write(name .. " " .. id .. "\\n")
    file:close()
end
function slurm_bb_job_process(script) told("process", 0) return slurm.SUCCESS end
function slurm_bb_pools()
    return slurm.SUCCESS, '{{"pools": [{{"id": "fast", "quantity": 10, "granularity": 1}}]}}'
end
function slurm_bb_setup(id, uid, gid, pool, size)
    note("setup", pool, size)
    told("setup", id)
    return slurm.SUCCESS
end
function slurm_bb_test_data_in(id)
    local held = io.open("{room}/hold")
    if held then held:close() return slurm.SUCCESS, "BUSY" end
    return slurm.SUCCESS, ""
end
function slurm_bb_data_in(id) note("data_in") return slurm.SUCCESS end
function slurm_bb_real_size() return slurm.SUCCESS, "" end
function slurm_bb_paths(id, script, path)
    local file = io.open(path, "w")
    file:write("BB_DIR=/bb/" .. id .. "\\n")
    file:close()
    return slurm.SUCCESS
end
function slurm_bb_pre_run(id) note("pre_run") return slurm.SUCCESS end
function slurm_bb_post_run(id) note("post_run") return slurm.SUCCESS end
function slurm_bb_data_out(id) note("data_out") return slurm.SUCCESS end
function slurm_bb_job_teardown(id, script, hurry)
    note("teardown", hurry)
    told("teardown", id)
    return slurm.SUCCESS
end
function slurm_bb_get_status(word) return slurm.SUCCESS, "status of " .. word .. "\\n" end
"""
CALLS = ["setup fast 4", "data_in", "pre_run", "post_run", "data_out", "teardown false"]
OPTION = "--bb=#BB_LUA pool=fast capacity=4"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        room = directory / "work"
        room.mkdir()
        room.chmod(0o1777)
        etc = directory / "c" / "etc"
        etc.mkdir(parents=True)
        (etc / "burst_buffer.lua").write_text(SCRIPT.format(room=room))
        (etc / "burst_buffer.conf").write_text("PollInterval=1\n")
        lines = directory / "lines.conf"
        lines.write_text("BurstBufferType=burst_buffer/lua\nScronParameters=enable\n")
        made = start(etc.parent, "--nodes", "2", "--cpus", "8", "--conf", str(lines))
        with without_faults(made):
            made.wait_until(
                "pools",
                lambda: "PoolName[0]=fast" in made.run("scontrol", "show", "burstbuffer").stdout,
            )
            yield made


@pytest.fixture
def work(cluster: LiveCluster) -> Path:
    """A directory that every user may write to; no function has been called there."""
    directory = cluster.directory.parent / "work"
    for name in ("calls", "by_job", "hold"):
        (directory / name).unlink(missing_ok=True)
    return directory


def calls(work: Path) -> list[str]:
    """Return which functions were called, with what, in order."""
    path = work / "calls"
    return path.read_text().splitlines() if path.exists() else []


def jobs_of(work: Path, name: str) -> list[str]:
    """Return the ids of the jobs that a function was called for, in order."""
    path = work / "by_job"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1] for line in lines if line.split()[0] == name]


def over(cluster: LiveCluster, work: Path) -> None:
    """Wait until the burst buffer of the one job is torn down."""
    cluster.wait_until("teardown", lambda: calls(work)[-1:] == CALLS[-1:])


def test_a_batch_job_with_a_burst_buffer(cluster: LiveCluster, work: Path) -> None:
    """Staged in, run with the variables of slurm_bb_paths, staged out, torn down; then no room."""
    script = work / "job.sh"
    script.write_text("#!/bin/sh\n#BB_LUA pool=fast capacity=4\necho $BB_DIR\n")
    job_id = submit_as(cluster, USER, "-o", "out.%j", str(script), cwd=work)
    over(cluster, work)
    assert calls(work) == CALLS
    assert (work / f"out.{job_id}").read_text() == f"/bb/{job_id}\n"
    cluster.wait_until(
        "room",
        lambda: (
            "UsedSpace=0\n" in cluster.out("scontrol", "show", "burstbuffer").split("Name[0]")[1]
        ),
    )
    shown = cluster.out("scontrol", "show", "job", str(job_id))
    assert "BurstBufferState=complete" in shown


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_commands_get_the_variables_too(cluster: LiveCluster, work: Path, command: str) -> None:
    """As under Slurm: srun's tasks, and what salloc starts."""
    done = as_user(
        cluster, USER, command, OPTION, "sh", "-c", "echo $SLURM_JOB_ID $BB_DIR", cwd=work
    )
    job_id, variable = done.stdout.split()
    assert variable == f"/bb/{job_id}"
    over(cluster, work)
    assert calls(work) == CALLS


def test_what_no_pool_can_hold_is_refused(cluster: LiveCluster, work: Path) -> None:
    """At the submission, with Slurm's text; no function is called for it."""
    words = ("sbatch", "--bb=#BB_LUA pool=fast capacity=11", "--wrap=true")
    done = as_user(cluster, USER, *words, cwd=work)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "sbatch: error: Batch job submission failed: Burst Buffer request invalid"
    )
    assert "capacity=11: pool fast has 10" in done.stderr
    words = ("sbatch", "--bb=#BB_LUA pool=fats capacity=1", "--wrap=true")
    done = as_user(cluster, USER, *words, cwd=work)
    assert "pool=fats: there is no such pool; pools: fast" in done.stderr
    assert calls(work) == []


def test_users_ask_the_sites_function(cluster: LiveCluster, work: Path) -> None:
    """`scontrol show bbstat` prints what slurm_bb_get_status returns."""
    done = as_user(cluster, USER, "scontrol", "show", "bbstat", "disks", cwd=work)
    assert (done.returncode, done.stdout) == (0, "status of disks\n")


def test_each_task_of_an_array_has_its_own(cluster: LiveCluster, work: Path) -> None:
    """As under Slurm: one slurm_bb_job_process, then every stage for each task's own job id.

    The pool has room for two tasks. A controller that is killed in mid-stage begins theirs anew.
    """
    (work / "hold").touch()
    script = work / "job.sh"
    script.write_text("#!/bin/sh\n#BB_LUA pool=fast capacity=4\necho $SLURM_JOB_ID $BB_DIR\n")
    submit_as(cluster, USER, "--array=1-4", "-o", "task.%a", str(script), cwd=work)
    cluster.wait_until("two tasks", lambda: len(jobs_of(work, "setup")) == 2)
    shown = cluster.out("squeue", "-h", "-r", "-o", "%T %r", "--sort=i").splitlines()
    assert (
        sorted(shown) == ["PENDING BurstBufferResources"] * 2 + ["PENDING BurstBufferStageIn"] * 2
    )
    assert cluster.out("scontrol", "show", "burstbuffer").count("    JobID=") == 2
    kill(cluster, "slurmctld")
    start_daemon(cluster, "slurmctld")
    cluster.wait_until("both anew", lambda: len(jobs_of(work, "setup")) == 4)
    assert len({*jobs_of(work, "setup")}) == 2
    (work / "hold").unlink()
    cluster.wait_until("all over", lambda: len(jobs_of(work, "teardown")) == 6)
    assert jobs_of(work, "process") == ["0"]
    ran = [(work / f"task.{task}").read_text().split() for task in range(1, 5)]
    assert [variable for _, variable in ran] == [f"/bb/{job_id}" for job_id, _ in ran]
    assert sorted({*jobs_of(work, "setup")}) == sorted(job_id for job_id, _ in ran)
    assert len({job_id for job_id, _ in ran}) == 4
    assert calls(work).count("data_out") == 4


def test_of_an_array_that_is_cancelled_nothing_stays(cluster: LiveCluster, work: Path) -> None:
    """Of its tasks, those that were made ready are torn down; the others never had anything."""
    (work / "hold").touch()
    words = ("--array=0-999", "--bb=#BB_LUA", "--wrap=true")
    job_id = submit_as(cluster, USER, *words, cwd=work)
    cluster.wait_until("ten tasks", lambda: len({*jobs_of(work, "setup")}) == 10)
    as_user(cluster, USER, "scancel", str(job_id), cwd=work)
    cluster.wait_until("teardown", lambda: len(jobs_of(work, "teardown")) == 10)
    assert {*jobs_of(work, "teardown")} == {*jobs_of(work, "setup")}
    assert cluster.out("squeue", "-h") == ""


def test_a_heterogeneous_job_has_that_of_its_first_component(
    cluster: LiveCluster, work: Path
) -> None:
    """As under Slurm. All components wait for it; the command says that others have none."""
    (work / "hold").touch()
    script = work / "job.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH -n1\n#BB_LUA pool=fast capacity=4\n#SBATCH hetjob\n#SBATCH -n1\n"
        "echo $BB_DIR\n"
    )
    job_id = submit_as(cluster, USER, "-o", "het.out", str(script), cwd=work)
    cluster.wait_until("setup", lambda: jobs_of(work, "setup") == [str(job_id)])
    assert cluster.out("squeue", "-h", "-o", "%T").split() == ["PENDING"] * 2
    (work / "hold").unlink()
    over(cluster, work)
    assert calls(work) == CALLS
    assert (work / "het.out").read_text() == f"/bb/{job_id}\n"


def test_an_entry_of_a_crontab_may_have_one(cluster: LiveCluster, work: Path) -> None:
    """It is judged as the crontab is stored; its runs are those of any job that is requeued."""
    table = work / "crontab"
    table.write_text('#SCRON --bb="#BB_LUA pool=fast capacity=4"\n@yearly true\n')
    as_user(cluster, USER, "scrontab", str(table), cwd=work)
    assert jobs_of(work, "process") == ["0"]
    shown = as_user(cluster, USER, "scontrol", "show", "job", cwd=work).stdout
    assert "BurstBuffer=#BB_LUA pool=fast capacity=4" in shown
    as_user(cluster, USER, "scrontab", "-r", cwd=work)
    assert cluster.out("squeue", "-h") == ""
    assert calls(work) == []  # nothing is staged a year before


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("#BB_LUA pool=fast capacity=11", "capacity=11: pool fast has 10"),
        ("#BB_LUA pool=fast capacity=x", "capacity=x: a number is allowed"),
        ("#BB", "no line begins with #BB_LUA"),
    ],
)
def test_a_crontab_with_a_wrong_one_is_refused(
    cluster: LiveCluster, work: Path, option: str, problem: str
) -> None:
    table = work / "crontab"
    table.write_text(f'@daily true\n#SCRON --bb="{option}"\n@daily true\n')
    done = as_user(cluster, USER, "scrontab", str(table), cwd=work)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()[:2]
    assert first == "scrontab: error: There was an issue with the job on lines 2-3"
    assert problem in second
    assert calls(work) == []
    assert cluster.out("squeue", "-h") == ""

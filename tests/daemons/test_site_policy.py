"""job_submit.lua and cli_filter.lua on a live cluster, against Slurm 22.05 with the same."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start
from tests.policy import site_scripts


@pytest.fixture(scope="module")
def site() -> Iterator[LiveCluster]:
    """The cluster of the recording; a script lies beside its slurm.conf."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        directory = Path(name) / "c"
        lines = Path(name) / "lines.conf"
        lines.write_text(f"{site_scripts.CONF}SelectTypeParameters=CR_Core\nDefMemPerCPU=0\n")
        words = ("--nodes", "4", "--cpus", "8", "--memory", "8192", "--gpus", "4")
        cluster = start(directory, *words, "--conf", str(lines))
        try:
            _prepare(cluster)
            yield cluster
        finally:
            cluster.down()


def _prepare(cluster: LiveCluster) -> None:
    user = cluster.out("id", "-un").strip()
    for account in site_scripts.ACCOUNTS:
        cluster.out("sacctmgr", "-i", "add", "account", account)
        cluster.out("sacctmgr", "-i", "add", "user", user, f"account={account}")
    cluster.out("sacctmgr", "-i", "add", "qos", ",".join(site_scripts.QOS))
    cluster.out("sacctmgr", "-i", "modify", "user", user, "set", "qos=normal,high,low")
    nodes = "nodename=n[1-4]"
    cluster.out("scontrol", "update", nodes, "availablefeatures=fast", "activefeatures=fast")
    reservation = site_scripts.RESERVATION.replace("=root", f"={user}")
    cluster.out("scontrol", "create", "reservation", *reservation.split())
    put(cluster, site_scripts.EMPTY)
    put(cluster, site_scripts.EMPTY_FILTER, "cli_filter.lua")
    with (cluster.directory / "etc" / "slurm.conf").open("a") as conf:
        conf.write("\nJobSubmitPlugins=lua\nSlurmctldParameters=job_submit_timeout=1\n")
    cluster.out("scontrol", "reconfigure")


def put(cluster: LiveCluster, text: str, name: str = "job_submit.lua") -> None:
    """Make a text the site's script, in one step."""
    path = cluster.directory / "etc" / name
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


@pytest.mark.parametrize("name", site_scripts.NAMES)
def test_scripts_of_sites_act_as_under_slurm(site: LiveCluster, name: str) -> None:
    """Job by job: exit code, what the user reads, and each field of the job."""
    put(site, site_scripts.script(name))
    played = [*site_scripts.play(name, site.run)]
    wrong_lines = site_scripts.differences(played, site_scripts.recorded(name))
    assert not wrong_lines, "\n".join(wrong_lines)


@pytest.mark.parametrize("name", site_scripts.FILTERS)
def test_filters_of_sites_act_as_under_slurm(site: LiveCluster, name: str) -> None:
    """In sbatch, srun and salloc: exit code, what the user reads, and each field of the job."""
    put(site, site_scripts.EMPTY)
    put(site, site_scripts.script(name), "cli_filter.lua")
    played = [*site_scripts.play(name, site.run)]
    put(site, site_scripts.EMPTY_FILTER, "cli_filter.lua")
    wrong_lines = site_scripts.differences(played, site_scripts.recorded(name))
    assert not wrong_lines, "\n".join(wrong_lines)


HOSTILE = """
local cases = {}
function cases.loop() while true do end end
function cases.memory() return #string.rep("x", 1 << 30) end
function cases.exit() os.exit(3) end
function cases.raised() error("boom") end
function cases.kill() os.execute("kill -9 $PPID") return 0 end
function cases.child() os.execute("sleep 1000") return 0 end
function cases.read() slurm.log_user("%s", io.open("/proc/self/status"):read("l")) return 0 end
function slurm_job_submit(job_desc)
    local case = cases[job_desc.name]
    return case and case() or slurm.SUCCESS
end
function slurm_job_modify() return 0 end
"""
_ENDS = "sbatch: error: Batch job submission failed: Unspecified error"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loop", "job_submit: the script took longer than 1 seconds"),
        ("memory", "job_submit/lua: {path}: not enough memory"),
        ("exit", "job_submit: the script ended its process with exit code 3"),
        ("raised", "job_submit/lua: {path}: {path}:6: boom"),
        ("kill", "job_submit: the process of the script was ended by signal 9"),
        ("child", "job_submit: the script took longer than 1 seconds"),
    ],
)
def test_a_script_that_misbehaves_refuses_its_job_only(
    site: LiveCluster, name: str, said: str
) -> None:
    """The user and the log read why; the next job is decided by a fresh process."""
    put(site, HOSTILE)
    done = site.run("sbatch", "-H", "-J", name, "--wrap=true")
    path = site.directory / "etc" / "job_submit.lua"
    text = said.format(path=path)
    assert (done.returncode, done.stderr.splitlines()) == (1, [f"sbatch: error: {text}", _ENDS])
    assert text in (site.directory / "log" / "slurmctld.log").read_text()
    assert site.submit("-H", "-J", "harmless", "--wrap=true")


def test_a_script_may_read_what_slurm_user_can(site: LiveCluster) -> None:
    """Sites keep lists of users and projects in files."""
    put(site, HOSTILE)
    done = site.run("sbatch", "-H", "-J", "read", "--wrap=true")
    assert done.stderr.startswith("sbatch: Name:"), done.stderr


def test_others_are_served_while_a_script_hangs(site: LiveCluster) -> None:
    """Only what scripts decide waits for them."""
    put(site, HOSTILE)
    hanging = subprocess.Popen(
        ["sbatch", "-H", "-J", "loop", "--wrap=true"],
        env=site.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    site.out("squeue")
    assert hanging.poll() is None
    _, said = hanging.communicate(timeout=60)
    assert "took longer than" in said


def test_a_broken_script_leaves_the_one_before_in_force(site: LiveCluster) -> None:
    """As under Slurm, which names the file and the line in its log."""
    put(site, site_scripts.script("scripts/07-default-time"))
    before = site.run("sbatch", "-H", "--wrap=true")
    put(site, "function (")
    after = site.run("sbatch", "-H", "--wrap=true")
    assert (before.stderr, after.returncode) == (after.stderr, 0)
    said = f"{site.directory}/etc/job_submit.lua:1: <name> expected near '(', using previous script"
    assert said in (site.directory / "log" / "slurmctld.log").read_text()


def test_the_journal_has_the_request_after_the_script(site: LiveCluster) -> None:
    """A restart replays the journal; the script, which is another by then, is not asked."""
    put(site, site_scripts.script("scripts/07-default-time"))
    job_id = int(site.run("sbatch", "--parsable", "-H", "--wrap=true").stdout)
    put(site, site_scripts.EMPTY)
    pid_file = next((site.directory / "run").rglob("slurmctld.pid"))
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    site.wait_until("start of slurmctld", lambda: site.run("slurmctld").returncode == 0)
    assert "TimeLimit=01:30:00" in site.out("scontrol", "show", "job", str(job_id))


def test_salloc_srun_and_tests_pass_the_script_too(site: LiveCluster) -> None:
    """What it says is shown by the command's own name."""
    put(site, site_scripts.script("scripts/02-refuse-without-account"))
    why = "Invalid account or account/partition combination specified"
    for words, last in (
        (("salloc", "true"), f"salloc: error: Job submit/allocate failed: {why}"),
        (("srun", "true"), f"srun: error: Unable to allocate resources: {why}"),
        (("sbatch", "--test-only", "--wrap=true"), f"allocation failure: {why}"),
    ):
        done = site.run(*words)
        lines = done.stderr.splitlines()
        command = words[0]
        asked = f"{command}: error: You have to say which account pays: --account=NAME"
        assert (done.returncode, lines[0], lines[-1]) == (1, asked, last)


def test_components_pass_one_by_one(site: LiveCluster) -> None:
    """Each line for the user has the component's number."""
    put(site, site_scripts.script("scripts/07-default-time"))
    done = site.run("sbatch", "-H", "--wrap=true", ":", "-t", "5")
    assert done.stderr.splitlines() == ["sbatch: 0: no --time: your job gets 90 minutes"]


def test_holding_and_releasing_are_changes_of_the_priority(site: LiveCluster) -> None:
    """As under Slurm: 0 holds, 4294967295 releases, and a number refuses either."""
    put(
        site,
        "function slurm_job_submit() return 0 end\n"
        "function slurm_job_modify(job_desc)\n"
        "    if job_desc.priority == slurm.INFINITE then return slurm.ESLURM_ACCESS_DENIED end\n"
        "    return slurm.SUCCESS\nend\n",
    )
    job_id = site.submit("-H", "--wrap=true")
    site.out("scontrol", "hold", str(job_id))
    done = site.run("scontrol", "release", str(job_id))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"Access/permission denied for job {job_id}"


def test_those_beside_a_script_that_hangs_are_asked_again(site: LiveCluster) -> None:
    """The process has several requests at a time; only one of them was the script's undoing."""
    put(site, HOSTILE)
    words = [["loop"], ["one"], ["two"], ["three"]]
    commands = [
        subprocess.Popen(
            ["sbatch", "-H", "-J", *name, "--wrap=true"],
            env=site.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name in words
    ]
    assert [bool(command.communicate(timeout=60)[0]) for command in commands] == [
        False,
        True,
        True,
        True,
    ]

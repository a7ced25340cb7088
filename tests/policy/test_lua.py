"""JobSubmitPlugins=lua: what a script sees, without a slurmctld."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.policy.description import Said
from pyslurm_ng.policy.job_submit_lua import JobSubmitLua
from tests.policy.surroundings import Surroundings, description

_TAIL = "\nfunction slurm_job_modify(job, record) return record.job_id end\n"


def plugin(tmp_path: Path, body: str) -> JobSubmitLua:
    text = f"function slurm_job_submit(job, parts, uid)\n{body}\nend{_TAIL}"
    (tmp_path / "job_submit.lua").write_text(text)
    return JobSubmitLua(str(tmp_path), "cluster")


def told(tmp_path: Path, body: str) -> list[str]:
    """Return what a function says to the user."""
    said = Said()
    job = description(said, b"A=1\0B=2\0", argv=["x", "y"])
    assert plugin(tmp_path, body).decide(job, None, Surroundings(), said) == 0
    return said.user_lines


def test_a_script_sees_jobs_on_demand(tmp_path: Path) -> None:
    """One by its number, or all in parts."""
    body = """
    slurm.log_user("%s %s", slurm.jobs["7"].name, tostring(slurm.jobs["9"]))
    for id, job in pairs(slurm.jobs) do slurm.log_user("%s %s", id, job.name) end
    return 0"""
    assert told(tmp_path, body) == ["other nil", "7 other", "8 next"]


def test_a_script_sees_priorities_of_qos(tmp_path: Path) -> None:
    """Nothing for a name that no QOS has."""
    body = """
    slurm.log_user("%d %s", slurm.get_qos_priority("high"), tostring(slurm.get_qos_priority("x")))
    return 0"""
    assert told(tmp_path, body) == ["5 nil"]


def test_a_script_sees_the_partitions_of_the_user(tmp_path: Path) -> None:
    """As in Slurm, by name."""
    body = """
    for name, part in pairs(parts) do slurm.log_user("%s %d", name, part.max_time) end
    slurm.log_user("%s %d %s", tostring(parts.secret), uid, slurm.CLUSTER_NAME)
    return 0"""
    assert told(tmp_path, body) == ["main 60", "nil 1000 cluster"]


def test_a_script_sees_environment_script_and_arguments(tmp_path: Path) -> None:
    """Arguments begin at 0, as in Slurm."""
    body = """
    local names = {}
    for name, value in pairs(job.environment) do names[#names + 1] = name .. value end
    table.sort(names)
    slurm.log_user("%s %s %s", table.concat(names, ","), job.argv[0], job.argv[1])
    slurm.log_user("%s", job.script)
    return 0"""
    assert told(tmp_path, body) == ["A1,B2 x y", "#!/bin/sh", ""]


def test_names_of_lua_5_1_are_there(tmp_path: Path) -> None:
    """Debian's Slurm has Lua 5.1, and scripts use it."""
    body = """
    slurm.log_user("%d %d %d", table.getn({1, 2}), unpack({3}), math.pow(2, 3))
    for word in string.gfind("a b", "%a") do slurm.log_user(word) end
    return loadstring("return 0")()"""
    assert told(tmp_path, body) == ["2 3 8", "a", "b"]


def test_texts_are_not_formatted_twice(tmp_path: Path) -> None:
    """A line that is no format is logged as it is."""
    assert told(tmp_path, 'slurm.log_user("100 % sure") return 0') == ["100 % sure"]


def test_a_change_has_the_record(tmp_path: Path) -> None:
    """And a number refuses it."""
    said = Said()
    site = plugin(tmp_path, "return 0")
    assert site.decide(description(said), {"job_id": 3}, Surroundings(), said) == 3


def test_python_is_out_of_reach(tmp_path: Path) -> None:
    """Nothing of ours but functions is in a script's tables."""
    assert told(tmp_path, 'slurm.log_user("%s", tostring(python)) return 0') == ["nil"]


def test_a_script_that_says_much_is_cut(tmp_path: Path) -> None:
    """A thousand lines of 4,096 characters are enough for anyone."""
    body = 'for i = 1, 5000 do slurm.log_user(string.rep("x", 5000)) end return 0'
    lines = told(tmp_path, body)
    assert len(lines) == 1000
    assert max(map(len, lines)) == 4096


def test_a_script_reads_what_commands_print(tmp_path: Path) -> None:
    """And learns how they ended; a command that has ended already is no reason to wait."""
    body = """
    local pipe = io.popen("printf 'a\\\\nb\\\\n'")
    os.execute("sleep 0.1")
    local first, rest = pipe:read("*l"), pipe:read("*a")
    slurm.log_user("%s %s %s", first, rest, tostring(pipe:close()))
    for line in io.popen("echo c; kill -9 $$"):lines() do slurm.log_user("%s", line) end
    slurm.log_user("%s %s %d", io.popen("exit 3"):close())
    slurm.log_user("%s %s %d", io.close(io.popen("kill -9 $$")))
    return 0"""
    assert told(tmp_path, body) == ["a b", " true", "c", "nil exit 3", "nil signal 9"]


def test_a_script_writes_to_a_command(tmp_path: Path) -> None:
    """The command has read all of it once the pipe is closed."""
    body = f"""
    local pipe = io.popen("cat > {tmp_path}/told", "w")
    pipe:write("a", 1):write("b")
    slurm.log_user("%s %s", io.type(pipe), tostring(pipe:close()))
    slurm.log_user("%s", tostring(select(2, pcall(io.popen, "true", "x"))))
    return 0"""
    assert told(tmp_path, body) == ["file true", "bad argument #2 to 'popen' (invalid mode)"]
    assert (tmp_path / "told").read_text() == "a1b"

"""Plugins of plugstack.conf beside the tasks, in real supervisors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.conf.plugstack import PlugLine
from tests.d.stepd.supervised import Supervised, Template


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Template]:
    template = Template(tmp_path)
    yield template
    template.close()


def plugins(
    directory: Path, code: str, *arguments: str, is_required: bool = True, limit_s: int = 20
) -> dict[str, Any]:
    """Return what a step is told of one plugin."""
    path = directory / "site.py"
    path.write_text(code)
    path.chmod(0o644)
    line = PlugLine("plugstack.conf", 1, str(path), list(arguments), is_required=is_required)
    return {"lines": [line.fields()], "owners": [0, os.getuid()], "limit_s": limit_s}


CALLS = """
import os
def note(text):
    with open({log!r}, "a") as file:
        file.write(text + "\\n")
def init(spank, *arguments):
    spank.kept = "kept"
    spank.setenv("FROM_INIT", ",".join(arguments))
    note(f"init {{spank.context}} {{spank.job_id}} {{spank.local_task_count}}")
def init_post_opt(spank):
    note("init_post_opt")
def user_init(spank):
    note(f"user_init {{os.geteuid()}}")
def task_post_fork(spank):
    note(f"task_post_fork {{spank.task_id}} {{os.getpgid(spank.task_pid) > 0}}")
def task_init_privileged(spank):
    note(f"task_init_privileged {{os.getuid()}}")
def task_init(spank):
    note(f"task_init {{os.getpid() == spank.task_pid}} {{spank.argv[0]}}")
    os.nice(3)
    spank.setenv("FROM_TASK", "yes")
    print("from the plugin", flush=True)
def task_exit(spank):
    note(f"task_exit {{spank.task_id}} {{spank.exit_status}} {{spank.kept}}")
def exit(spank):
    note("exit")
"""


def test_all_calls_come_in_spanks_order(template: Template, tmp_path: Path) -> None:
    """With one state from init to exit; what task_init changes is the task's."""
    log = tmp_path / "calls"
    words = plugins(tmp_path, CALLS.format(log=str(log)), "a", "b")
    end, output = template.run('echo "$FROM_INIT $FROM_TASK $(nice)"; exit 3', plugins=words)
    uid = os.getuid()
    assert end["status"] == 3 << 8
    nice = os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert output == f"from the plugin\na,b yes {nice}\n"
    lines = log.read_text().splitlines()
    assert lines[:3] == [f"init remote {template._job} 1", "init_post_opt", f"user_init {uid}"]
    assert sorted(lines[3:6]) == [
        f"task_init True {tmp_path}/job00001/slurm_script",
        f"task_init_privileged {uid}",
        "task_post_fork 0 True",
    ]
    assert lines[6:] == ["task_exit 0 768 kept", "exit"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "def init(spank): raise ValueError('no luck')",
            "init() failed: ValueError: no luck (site.py:1)",
        ),
        ("def init_post_opt(spank): return -1", "init_post_opt() failed: it returned -1"),
        (
            "import sys\ndef user_init(spank): sys.exit(4)",
            "user_init() failed: SystemExit: 4 (site.py:2)",
        ),
        ("def task_init(spank): 1 // 0", "task_init() failed: ZeroDivisionError"),
        ("def task_init_privileged(spank): return 7", "it returned 7"),
        ("def task_post_fork(spank): return 7", "task_post_fork() failed: it returned 7"),
        ("import nowhere", "cannot be loaded: ModuleNotFoundError"),
        ("def task_init(spank):\n import os\n os._exit(0)", "ended in a plugin"),
    ],
)
def test_a_required_plugin_that_fails_fails_the_step(
    template: Template, tmp_path: Path, code: str, reason: str
) -> None:
    """With a line for the user; the supervisor itself goes on to its end."""
    ran = tmp_path / "ran"
    end, output = template.run(f"touch {ran}", plugins=plugins(tmp_path, code))
    assert end["status"] == 1 << 8
    assert reason in output + end["error"]
    assert not ran.exists()


def test_an_optional_plugin_that_fails_is_logged(template: Template, tmp_path: Path) -> None:
    """The step runs as without it, and slurmd's log has why."""
    words = plugins(tmp_path, "def task_init(spank): 1 // 0", is_required=False)
    step = template.start(template.spec("#!/bin/sh\nexit 5", plugins=words))
    said, status = heard(step)
    assert status == 5 << 8
    (text,) = [words["text"] for words in said if words.get("did") == "plugin"]
    assert text.startswith("spank: optional plugin site: task_init() failed: ZeroDivisionError")


@pytest.mark.parametrize("call", ["init", "task_init", "task_init_privileged", "task_post_fork"])
def test_an_endless_loop_costs_only_the_step(template: Template, tmp_path: Path, call: str) -> None:
    words = plugins(tmp_path, f"def {call}(spank):\n while True: pass", limit_s=1)
    end, output = template.run("exit 0", plugins=words)
    assert end["status"] == 1 << 8
    assert "it took longer than 1 seconds" in output + end["error"]


def test_a_loop_at_the_end_does_not_change_the_result(template: Template, tmp_path: Path) -> None:
    """The step has ended well; its user is told."""
    words = plugins(tmp_path, "def exit(spank):\n while True: pass", limit_s=1)
    end, output = template.run("exit 6", plugins=words)
    assert end["status"] == 6 << 8
    assert "exit() failed: it took longer than 1 seconds" in output


def test_a_step_can_be_cancelled_while_a_plugin_runs(template: Template, tmp_path: Path) -> None:
    """The supervisor waits for no plugin."""
    begun = tmp_path / "begun"
    code = f"import time\ndef init(spank):\n open({str(begun)!r}, 'w').close()\n time.sleep(900)"
    step = template.start(
        template.spec("#!/bin/sh\n", plugins=plugins(tmp_path, code, limit_s=600))
    )
    from tests.world.waiting import wait_until

    wait_until(begun.exists)
    step.tell(do="terminate", why="", wait_s=0.0)
    _, status = heard(step)
    assert status & 0x7F == 15


def test_the_file_of_a_plugin_must_be_its_owners_alone(template: Template, tmp_path: Path) -> None:
    """Root runs it."""
    words = plugins(tmp_path, "def init(spank): pass")
    (tmp_path / "site.py").chmod(0o666)
    end, output = template.run("exit 0", plugins=words)
    assert end["status"] == 1 << 8
    assert "can be written by others than its owner" in output + end["error"]


def heard(step: Supervised) -> tuple[list[dict[str, Any]], int]:
    """Return what a supervisor says until it has gone, and how its step ended."""
    said = []
    while words := step.hear():
        said.append(words)
    return said, step.end()["status"]

"""slurmctld takes no job without the scripts that its configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ctld.controller import Controller

_EMPTY = "function slurm_job_submit() return 0 end\n"
_FATAL = "fatal: failed to initialize job_submit plugin"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "Unable to stat {path}: No such file or directory"),
        ("function (", "job_submit.lua:1: <name> expected near '('"),
        ("error('x')", "job_submit.lua:1: x"),
        (_EMPTY, "{path}: missing required function slurm_job_modify"),
        ("while true do end", "job_submit: loading took longer than 1 seconds"),
    ],
)
def test_a_script_that_cannot_be_loaded_stops_the_start(
    tmp_path: Path, script: str | None, said: str
) -> None:
    """As under Slurm, with the line that says what is wrong before the last."""
    controller = Controller(
        tmp_path, "JobSubmitPlugins=lua\nSlurmctldParameters=job_submit_timeout=1\n"
    )
    path = tmp_path / "job_submit.lua"
    if script is not None:
        path.write_text(script)
    ran = controller.run()
    told = ran.stderr + controller.log()
    assert ran.returncode == 1
    assert said.format(path=path) in told
    assert _FATAL in told

"""UsePAM: a PAM session around the tasks of a step, whose limits they have."""

from __future__ import annotations

import pwd
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.numbers import END_CLEAN
from tests.d.mounts import can_mount
from tests.d.stepd.supervised import Template, until_written
from tests.world.processes import is_running
from tests.world.waiting import wait_until

HAS_MODULES = list(Path("/").glob("lib/*/security/pam_limits.so")) or list(
    Path("/").glob("lib*/security/pam_limits.so")
)
pytestmark = pytest.mark.skipif(
    not (can_mount() and HAS_MODULES),
    reason="needs root, mount namespaces and the modules of PAM",
)
BIND = 'mount --bind "$1" /etc/pam.d && shift && exec "$@"'
LIMITS = "session required pam_limits.so conf={0}/limits\n"


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    """One that sees other rules of PAM than this host has."""
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        pam = Path(name, "pam.d")
        pam.mkdir()
        made = Template(Path(name), "unshare", "-m", "sh", "-c", BIND, "sh", str(pam))
        yield made
        made.close()


def rules(template: Template, text: str) -> None:
    directory = template.directory
    auth = "auth required pam_permit.so\n"
    (directory / "pam.d" / "slurm").write_text(auth + text.format(directory))
    log = directory / "log"
    log.write_text("")
    program = directory / "program"
    program.write_text(f"#!/bin/sh\necho $PAM_TYPE $PAM_USER $PAM_SERVICE >> {log}\n")
    program.chmod(0o755)
    (directory / "limits").write_text("nobody hard nofile 77\nnobody soft nofile 70\n")


def as_nobody(template: Template, **more: Any) -> dict[str, Any]:
    user = pwd.getpwnam("nobody")
    out = template.directory / "out"
    out.unlink(missing_ok=True)
    template.directory.chmod(0o1777)
    return {
        "uid": user.pw_uid, "gid": user.pw_gid, "groups": [user.pw_gid], "pam": "nobody",
        "cwd": "/", **more,
    }  # fmt: skip


def test_tasks_have_its_limits(template: Template) -> None:
    """The user's own limits count within them; the session ends after the script."""
    rules(template, LIMITS + "session required pam_exec.so {0}/program\n")
    script = f"ulimit -Sn; ulimit -Hn; cat {template.directory}/log"
    end, out = template.run(script, **as_nobody(template))
    assert (end["status"], out.splitlines()) == (0, ["70", "77", "open_session nobody slurm"]), end
    until_written(str(template.directory / "log"), "close_session nobody slurm\n")
    asked = [(resource.RLIMIT_NOFILE, 50, 4000)]
    _, out = template.run("ulimit -Sn; ulimit -Hn", **as_nobody(template, rlimits=asked))
    assert out.split() == ["50", "77"]


def test_a_refusal_is_told(template: Template) -> None:
    rules(template, "session required pam_deny.so\n")
    end, out = template.run("echo ran", **as_nobody(template))
    assert (end["status"], "ran" in out) == (53, False)
    assert end["error"].startswith("pam_open_session: user nobody: "), end


def test_a_module_that_hangs_can_be_cancelled(template: Template) -> None:
    """The supervisor does not wait with it, neither before the tasks nor after them."""
    rules(template, "session required pam_exec.so /bin/sleep 4712\n")
    step = template.start(template.spec("#!/bin/sh\n", **as_nobody(template)))
    wait_until(lambda: is_running("4712"), "the module")
    step.tell(do="terminate", why="", wait_s=0.0)
    assert step.end()["flags"] & END_CLEAN
    wait_until(lambda: not is_running("4712"), "end of the module's process")

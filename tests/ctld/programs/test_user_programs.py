"""Programs run as users: a few of each at once, and none keeps another user's waiting."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest

from pyslurm_ng.ctld.programs import user_programs
from pyslurm_ng.ctld.programs.runner import run_program
from pyslurm_ng.ctld.programs.user_programs import UserPrograms, look_up_account
from tests.world.logs import NotedFaults

T = TypeVar("T")
User = tuple[int, int, tuple[int, ...]] | None


class HeldStarts:
    """Programs that run until the test ends them."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.users: list[User] = []
        self.environments: list[Mapping[str, str]] = []
        self._ends: list[asyncio.Future[str]] = []

    async def __call__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        limit_s: float,
        *,
        user: User = None,
    ) -> str:
        self.began.append(argv[0])
        self.users.append(user)
        self.environments.append(environment)
        end = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        return str(await end)

    async def end(self, count: int) -> None:
        """Let the oldest ones end."""
        for end in self._ends[:count]:
            end.set_result("")
        del self._ends[:count]
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def at_once(work: Callable[[], T], done: Callable[[T], None], /) -> None:
    done(work())


def test_a_user_whose_programs_hang_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many of one user run; those of another begin all the same, within what all have."""
    monkeypatch.setattr(user_programs, "AT_ONCE", 3)
    monkeypatch.setattr(user_programs, "AT_ONCE_OF_A_USER", 2)

    async def scene() -> None:
        starts = HeldStarts()
        programs = UserPrograms(NotedFaults().note, at_once, start=starts)
        for _ in range(4):
            programs.run(["/hangs"], 1, 1, {})
        programs.run(["/quick"], 2, 2, {})
        programs.run(["/waits"], 3, 3, {})
        await settled()
        assert starts.began == ["/hangs", "/hangs", "/quick"]
        await starts.end(1)
        assert len(starts.began) == 4
        await starts.end(1)
        await starts.end(4)
        await starts.end(4)
        assert sorted(starts.began) == ["/hangs"] * 4 + ["/quick", "/waits"]

    asyncio.run(scene())


def test_too_many_are_dropped_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """They must not fill the controller's memory."""
    monkeypatch.setattr(user_programs, "AT_ONCE_OF_A_USER", 1)
    monkeypatch.setattr(user_programs, "WAITING", 2)

    async def scene() -> None:
        starts, noted = HeldStarts(), NotedFaults()
        programs = UserPrograms(noted.note, at_once, start=starts)
        for _ in range(5):
            programs.run(["/many"], 1, 1, {})
        await settled()
        assert starts.began == ["/many"]
        why = "/many: not run, because 2 programs of uid 1 wait"
        assert noted.told == [("trigger_program", why)] * 2
        programs.stop()
        assert noted.told[2:] == [
            ("trigger_program", "2 programs of users were not run before the end")
        ]
        await starts.end(1)
        assert starts.began == ["/many"]

    asyncio.run(scene())


def test_a_program_has_a_login_and_its_users_rights() -> None:
    """Of a user that the directory does not know, uid and gid alone."""

    async def scene() -> None:
        starts = HeldStarts()
        programs = UserPrograms(NotedFaults().note, at_once, start=starts, own_uid=1)
        programs.run(["/root"], 0, 0, {"SLURM_CONF": "/etc/slurm.conf"})
        programs.run(["/own"], 1, 1, {})
        programs.run(["/unknown"], 999_999_999, 5, {})
        await settled()
        root = look_up_account(0, 0)
        assert starts.users == [(0, 0, root.groups), None, (999_999_999, 5, ())]
        environment = starts.environments[0]
        assert (environment["USER"], environment["HOME"]) == ("root", root.home)
        assert environment["SLURM_CONF"] == "/etc/slurm.conf"
        await starts.end(3)

    asyncio.run(scene())


def test_a_program_that_runs_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    """And the log says so."""
    child = tmp_path / "child"
    script = f"sleep 600 & echo $! > {child}; wait"
    failure = asyncio.run(run_program(["/bin/sh", "-c", script], {}, 0.5))
    assert failure == "/bin/sh: killed after 0 s"
    pid = int(child.read_text())
    for _ in range(1000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        os.sched_yield()
        if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
    pytest.fail("the child still runs")


def test_what_went_wrong_is_told() -> None:
    """No such program, an exit code, a signal."""
    assert asyncio.run(run_program(["/none"], {}, 5)) == "/none: No such file or directory"
    assert asyncio.run(run_program(["/bin/sh", "-c", "exit 3"], {}, 5)) == "/bin/sh: exit code 3"
    assert asyncio.run(run_program(["/bin/sh", "-c", "kill $$"], {}, 5)) == "/bin/sh: signal 15"
    assert asyncio.run(run_program(["/bin/sh", "-c", "exit 0"], {}, 5)) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_becomes_the_user() -> None:
    """Uid, gid and groups; its directory is none of slurmctld's."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        told = Path(folder) / "told"
        script = f"(id -u; id -g; id -G; pwd) > {told}"
        user = 65534, 65534, (65534, 60)
        assert asyncio.run(run_program(["/bin/sh", "-c", script], {}, 5, user=user)) == ""
        assert told.read_text().split("\n")[:4] == ["65534", "65534", "65534 60", "/"]

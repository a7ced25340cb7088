"""RELIABILITY 16: broken, empty, unreadable and half-written files at a reconfigure, under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire.client import SlurmError
from tests.ctld.controller import Controller
from tests.ctld.submitter import Submitter, known_jobs

pytestmark = pytest.mark.daemons
NETWORK = "SwitchName=s1 Nodes=n[1-4]\n"
DEVICES = "NodeName=n[1-4] Name=gpu File=/dev/null\n"
FAULTS: tuple[tuple[str, str, bytes | None, str], ...] = (
    ("slurm.conf", "broken", b"ClusterName=test\nNoSuchKey=1\n", ":2: NoSuchKey: "),
    ("slurm.conf", "empty", b"", ": ClusterName: must be given"),
    ("slurm.conf", "unreadable", None, ": cannot be read: "),
    ("slurm.conf", "half-written", b"ClusterName=test\nSlurmctldHo", ":2: SlurmctldHo: "),
    ("topology.conf", "broken", b"SwitchName=s1 Switches=s1\n", ":1: SwitchName: "),
    ("topology.conf", "empty", b"", ": is empty, but TopologyPlugin=topology/tree"),
    ("topology.conf", "unreadable", None, ": cannot be read: "),
    ("topology.conf", "half-written", b"SwitchName=s1 Nod", ":1: Nod: "),
    ("gres.conf", "broken", b"NodeName=n[1-4] Name=gpu Count=two\n", ":1: "),
    ("gres.conf", "unreadable", None, ": cannot be read: "),
    ("gres.conf", "half-written", b"NodeName=n[1-4] Na", ":1: Na: "),
)
"""Files, what is wrong, their content (a directory for None), and what is said behind the path.

An empty gres.conf is none: devices are counted in slurm.conf."""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    room = Controller(
        tmp_path, "TopologyPlugin=topology/tree\nGresTypes=gpu\nMaxJobCount=1000000\n"
    )
    room.text = room.text.replace("RealMemory=1000", "RealMemory=1000 Gres=gpu:1")
    room.conf_path.write_text(room.text)
    (tmp_path / "topology.conf").write_text(NETWORK)
    (tmp_path / "gres.conf").write_text(DEVICES)
    yield room
    room.stop()


def refusal(controller: Controller) -> str:
    """Return why a reconfigure is refused, or nothing."""
    try:
        controller.change("Reconfigure")
    except SlurmError as error:
        return str(error)
    return ""


def test_no_bad_file_is_taken(controller: Controller) -> None:
    """Each is refused by file and line; submissions go on, and no job is touched."""
    controller.start()
    submitters = [Submitter(controller, f"s{number}") for number in range(2)]
    for submitter in submitters:
        submitter.start()
    for submitter in submitters:
        assert submitter.enough.wait(60)
    for name, what, content, said in FAULTS:
        path = controller.directory / name
        good = path.read_bytes()
        path.unlink()
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        assert f"{path}{said}" in refusal(controller), (name, what)
        if content is None:
            path.rmdir()
        path.write_bytes(good)
        before = sum(len(submitter.promised) for submitter in submitters)
        assert controller.call("ShowTopology")
        while sum(len(submitter.promised) for submitter in submitters) == before:
            assert all(submitter.is_alive() for submitter in submitters)
    controller.change("Reconfigure")
    controller.kill()
    controller.start()
    known = known_jobs(controller)
    for submitter in submitters:
        submitter.join(60)
        assert {job_id: known.get(job_id) for job_id in submitter.promised} == submitter.promised
    assert "Traceback" not in controller.log()

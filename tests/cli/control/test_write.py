"""`scontrol write config` writes a slurm.conf that says what the controller has in force."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.ctld.queries.configuration import config_lines
from tests.cli.reference_cluster import ReferenceCluster, reference_conf
from tests.cli.run_command import Printed, run_command

# Where the same thing may be written in more than one way, or names the file itself.
UNLIKE = {
    "path", "files", "text_hash", "nodes", "partitions", "given", "warnings",
    "accounting_storage_tres", "accounting_store_flags",
}  # fmt: skip


def write(patch: pytest.MonkeyPatch, path: Path, *words: str) -> Printed:
    """Run the command against the reference cluster; slurmctld's own lines are stood in for."""

    def shown(session: object) -> list[str]:
        lines = config_lines(
            reference_conf(), version="26.11", boot_time="now", next_job_id=7, user_id=len
        )
        return ["Configuration data as of now", *lines]

    patch.setattr("pyslurm_ng.cli.control.write.config_lines", shown)
    return run_command(patch, ReferenceCluster(), "root", ["scontrol", "write", "config", *words])


def written(printed: Printed, path: Path) -> SlurmConf:
    """Read what was written as a daemon would."""
    name = re.fullmatch(r"Slurm config saved to (.+\.\d{4}-\d\d-\d\dT[\d:]{8})\n", printed.stdout)
    assert name and printed.code == 0, printed
    return parse_slurm_conf(Path(name[1]).read_text(), str(path))


def test_every_key_comes_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An administrator keeps the file to go back to it."""
    path = tmp_path / "saved.conf"
    again = written(write(monkeypatch, path, str(path)), path)
    before = reference_conf()
    for field in dataclasses.fields(SlurmConf):
        if field.name not in UNLIKE:
            assert getattr(again, field.name) == getattr(before, field.name), field.name


def test_nodes_and_partitions_come_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those made at run time are in force, too."""
    path = tmp_path / "saved.conf"
    again = written(write(monkeypatch, path, str(path)), path)
    before = reference_conf()

    def nodes(conf: SlurmConf) -> list[tuple[object, ...]]:
        return [
            (node.name, node.port, node.cpus, node.real_memory_mib, node.weight, node.features,
             node.gres)
            for node in conf.nodes
        ]  # fmt: skip

    def partitions(conf: SlurmConf) -> list[object]:
        return [dataclasses.replace(part, file="", line=0) for part in conf.partitions]

    assert nodes(again) == nodes(before)
    assert partitions(again) == partitions(before)


def test_a_directory_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line that names the file."""
    path = tmp_path / "no" / "saved.conf"
    printed = write(monkeypatch, path, str(path))
    assert printed.code == 1 and printed.stdout == ""
    said = rf"scontrol: error: {path}\.[-T:\d]+: No such file or directory\n"
    assert re.fullmatch(said, printed.stderr)

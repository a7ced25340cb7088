"""SLURM_HOSTFILE names the node of each task of jobs and steps. Compared with Slurm 22.05."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options


def request_of(command: str, *words: str) -> dict[str, Any]:
    """Read a command line; return the request."""
    options = Options(command)
    options.apply_all(options.split_words(list(words))[0], COMMAND_LINE)
    options.finish()
    return options.request


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of three names that SLURM_HOSTFILE names."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    path = tmp_path / "hosts"
    path.write_text("# where\nn2\n n1 # first rack\n\nn2\n")
    monkeypatch.setenv("SLURM_HOSTFILE", str(path))
    return path


@pytest.mark.parametrize("command", ["srun", "salloc", "sbatch"])
@pytest.mark.parametrize(
    ("words", "nodes", "tasks"),
    [
        ([], "n2,n1,n2", 3),
        (["-m", "arbitrary"], "n2,n1,n2", 3),
        (["-m", "block", "-n2"], "n2,n1", 2),
        (["-N1"], "n2", 1),
    ],
)
def test_the_file_chooses_nodes_and_tasks(
    hosts: Path, command: str, words: list[str], nodes: str, tasks: int
) -> None:
    """--distribution does not matter. Without -n, each name is a task."""
    request = request_of(command, *words)
    assert (request["node_list"], request["ntasks"]) == (nodes, tasks)
    assert request["distribution"] == "arbitrary"


def test_a_node_list_goes_before_the_file(hosts: Path) -> None:
    """-w on the command line: the file is not read."""
    hosts.unlink()
    request = request_of("srun", "-w", "n3", "-n1")
    assert request["node_list"] == "n3" and "distribution" not in request


def test_names_may_be_repeated_and_folded(hosts: Path) -> None:
    """`n1*2` is n1 twice, and a line may be a host list."""
    hosts.write_text("n[1-2]*2\nn5,n4\n")
    assert request_of("srun")["node_list"] == "n1,n2,n1,n2,n5,n4"


@pytest.mark.parametrize(
    ("text", "words", "refusal"),
    [
        ("n1\n", ["-n2"], "Too few NodeNames in Slurm Hostfile"),
        ("\n# none\n", [], "Hostlist is empty!"),
        ("n1\nn1 n2\n", [], "Invalid hostfile HOSTS contents on line 2"),
        ("n1*x\n", [], "Invalid hostfile HOSTS contents on line 1"),
        ("n1*0\n", [], "Invalid hostfile HOSTS contents on line 1"),
        ("n[1-99999999]\n", [], "Invalid hostfile HOSTS contents on line 1"),
        ("n1*99999999\n", [], "Invalid hostfile HOSTS contents on line 1"),
        ("n[1\n", [], "Invalid hostfile HOSTS contents on line 1"),
        ("n\x001\xff\n", [], "Invalid hostfile HOSTS contents on line 1"),
        (None, [], "slurm_allocate_resources error opening file HOSTS, No such file or directory"),
    ],
)
def test_a_bad_list_of_hosts_is_refused(
    hosts: Path, text: str | None, words: list[str], refusal: str
) -> None:
    """With Slurm's words and exit code 1."""
    if text is None:
        hosts.unlink()
    else:
        hosts.write_bytes(text.encode("latin-1"))
    with pytest.raises(OptionError) as refused:
        request_of("srun", *words)
    lines = refused.value.text.replace(str(hosts), "HOSTS").split("\n")
    assert lines == [refusal, "Failure getting NodeNames from hostfile"]
    assert refused.value.code == 1

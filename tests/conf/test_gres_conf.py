"""gres.conf: devices of nodes, and how they must agree with slurm.conf."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.gres_conf import GresConf, empty_gres_conf, parse_gres_conf
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf

CONF = parse_slurm_conf(
    "ClusterName=c\nSlurmctldHost=ctl\nGresTypes=gpu,nic,shard\n"
    "NodeName=n[1-2] Sockets=2 CoresPerSocket=4 Gres=gpu:a100:4\nNodeName=n3 CPUs=4\n"
)


def read(text: str) -> GresConf:
    return parse_gres_conf(text, CONF.gres_types, CONF.nodes)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfErrors) as caught:
        read(text)
    return str(caught.value).splitlines()


def test_a_line_gives_devices_to_its_nodes() -> None:
    conf = read(
        "AutoDetect=off\n"
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/g[0-1] Cores=0-3 Links=-1,2\n"
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/g2,/dev/g3 Cores=4-7\n"
        "Name=nic Count=2 Flags=CountOnly\n"
    )
    assert conf.auto_detect == "off"
    near, far, nic = conf.for_node("n1")
    assert (near.files, near.amount, near.cores) == (("/dev/g0", "/dev/g1"), 2, (0, 1, 2, 3))
    assert near.links == (-1, 2)
    assert far.files == ("/dev/g2", "/dev/g3")
    assert (nic.name, nic.amount, nic.flags) == ("nic", 2, ("CountOnly",))
    assert [line.name for line in conf.for_node("n3")] == ["nic"]


def test_detection_may_differ_by_node() -> None:
    conf = read("AutoDetect=nvml\nNodeName=n3 AutoDetect=off\n")
    assert conf.auto_detect_on("n1") == "nvml"
    assert conf.auto_detect_on("n3") == "off"
    assert empty_gres_conf().auto_detect_on("n1") == ""


def test_a_line_of_flags_alone_takes_the_count_of_slurm_conf() -> None:
    """Flags=explicit without Count or File: as many as Gres= of each node says, of its type."""
    conf = read("Name=gpu Flags=explicit\nName=nic Type=x\n")
    lines = [[line for line in conf.lines_of(node) if line.name == "gpu"] for node in CONF.nodes]
    assert [[(line.type_name, line.amount) for line in here] for here in lines] == [
        [("a100", 4)], [("a100", 4)], []
    ]  # fmt: skip
    assert [line.amount for line in conf.lines_of(CONF.nodes[2])] == [1]


def test_a_line_of_a_type_that_is_not_managed_is_left_out() -> None:
    """As slurmd does: "Ignoring gres.conf record, invalid name: fpga"."""
    conf = read("NodeName=n3 Name=fpga File=/dev/f0\nNodeName=n3 Name=nic\n")
    assert [line.name for line in conf.lines] == ["nic"]
    (said,) = conf.warnings
    assert said.endswith(
        ":1: Name: fpga is not in GresTypes=gpu,nic,shard of slurm.conf and is left out"
    )


def test_nodes_of_other_clusters_are_left_out() -> None:
    """One file may serve several clusters; Slurm reads the lines of a node on that node only."""
    conf = read("NodeName=z[8-9] Name=nic\nNodeName=n3 Name=nic\n")
    (said,) = conf.warnings
    assert said == "gres.conf:1: NodeName: slurm.conf has no node z[8-9]: left out"
    assert [line.name for line in conf.for_node("n3")] == ["nic"]


def test_a_line_without_nodes_is_not_for_nodes_without_such_devices() -> None:
    """Cores 4 to 7 are of the nodes with GPUs; n3, which has four cores, has none."""
    conf = read("Name=gpu Type=a100 File=/dev/g[0-3] Cores=4-7\n")
    assert conf.lines_of(CONF.nodes[0])[0].cores == (4, 5, 6, 7)


def test_counts_take_suffixes() -> None:
    assert read("NodeName=n3 Name=shard Count=2K\n").lines[0].amount == 2048


@pytest.mark.parametrize("line", ["AutoDetect=rsmi", "NodeName=n1 AutoDetect=rsmi"])
def test_words_of_auto_detect_that_are_not_there_are_named(line: str) -> None:
    """slurmd does not start with them, and the check comes before."""
    (warning,) = read(line + "\n").warnings
    assert "AutoDetect: rsmi is not there yet: slurmd does not start" in warning
    assert read("AutoDetect=nvml\nNodeName=n1 AutoDetect=off\n").warnings == ()


def test_auto_detect_beside_a_name_needs_nodes() -> None:
    """Slurm 22.05 says so, too, and detects nothing."""
    conf = read("Name=nic AutoDetect=nvml Count=2\n")
    assert conf.auto_detect_on("n1") == ""
    (warning,) = conf.warnings
    assert warning.endswith(
        "AutoDetect: is ignored beside Name: it needs NodeName, or a line of its own"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("File=/dev/x", "expected Name=, or AutoDetect="),
        ("Name=nic File=dev/x", "File=dev/x is not an absolute path"),
        ("Name=nic File=/dev/x[0-1] Count=3", "Count=3 differs from the 2 files"),
        ("Name=nic File=/dev/x MultipleFiles=/dev/y", "only one of File and MultipleFiles"),
        ("Name=nic Links=1,2", "expected exactly one -1"),
        ("Name=nic Links=-1,x", "'x' is not a number"),
        ("Name=nic Flags=one_sharing,all_sharing", "only one of one_sharing and all_sharing"),
        ("AutoDetect=maybe", "'maybe' is unknown; allowed: full"),
        ("Name=nic Count=many", "'many' is not a count"),
        ("Name=nic Cores=5-2", "ascending range"),
        ("Name=gpu Cores=8", "core 8: node n1 has 8 cores"),
        ("Name=nic Wheels=4", "unknown key in gres.conf"),
        ("Name=nic File=/dev/x\nName=gpu Type=a100 File=/dev/x", "already given in line 1"),
        (
            "NodeName=n1 Name=gpu Type=a100 File=/dev/g[0-2]",
            "node n1 has 3 of the 4 that Gres=gpu:a100:4 of slurm.conf promises",
        ),
    ],
)
def test_a_mistake_is_named(text: str, expected: str) -> None:
    assert expected in problems(text + "\n")[0]


def test_a_file_without_node_names_may_be_that_of_one_node() -> None:
    """Sites have a gres.conf on each node; slurmd and slurmctld read it with all nodes in mind."""
    nodes = parse_slurm_conf(
        "ClusterName=c\nSlurmctldHost=ctl\nGresTypes=gpu\n"
        "NodeName=n1 CPUs=4 Gres=gpu:2\nNodeName=n2 CPUs=16 Gres=gpu:4\n"
    ).nodes
    for text in ("Name=gpu File=/dev/g[0-1] Cores=0-3", "Name=gpu File=/dev/g[0-3] Cores=8-15"):
        assert len(parse_gres_conf(f"{text}\n", ("gpu",), nodes).lines) == 1
    with pytest.raises(ConfErrors, match="core 16: node n1 has 4 cores"):
        parse_gres_conf("Name=gpu File=/dev/g[0-3] Cores=16\n", ("gpu",), nodes)


def test_no_variables_excludes_variables() -> None:
    assert problems("Name=gpu Type=a100 Count=4 Flags=no_gpu_env,opencl_env") == [
        "gres.conf:1: Name: Flags=no_gpu_env excludes other flags of variables"
    ]


def test_all_mistakes_are_named() -> None:
    assert len(problems("Name=fpga\nName=nic Links=1\nBad=1\nName=nic Count=x\n")) >= 4

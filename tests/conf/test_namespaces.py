"""Private directories of jobs: job_container.conf and namespace.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.conf.check import check, check_warnings
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.namespaces import (
    Namespaces,
    PrivateDirectory,
    load_namespaces,
    parse_job_container_conf,
)

SLURM = "ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n"
WHOLE = """\
AutoBasePath=true BasePath=/scratch/%h/%n Dirs=/tmp,/var/tmp,/dev/shm
InitScript=/etc/init.sh CloneNSScript=/etc/in.sh CloneNSScript_Wait=3
CloneNSEpilog=/etc/out.sh CloneNSEpilog_Wait=4 EntireStepInNS=true
NodeName=n[2-3] Shared=true BasePath=/local
NodeName=n4 BasePath=none
"""
YAML = """\
defaults:
  auto_base_path: true
  base_path: /scratch
  dirs: [/tmp, /dev/shm]
  clone_ns_script: /etc/in.sh
  clone_ns_script_wait: 3
  clone_ns_epilog: /etc/out.sh
  clone_ns_epilog_wait: 4
  init_script: /etc/init.sh
  clone_ns_flags: CLONE_NEWNS
node_confs:
  - nodes: [n2, "n[3-4]"]
    options:
      shared: true
      dir_confs:
        - path: /tmp
          base_path: /fast
          options: [nosuid, noexec]
        - path: /var/tmp
          tmpfs: true
"""


def written(directory: Path, name: str, text: str) -> str:
    (directory / name).write_text(text)
    return str(directory / name)


def test_lines_of_a_node_count_after_those_of_all(tmp_path: Path) -> None:
    path = written(tmp_path, "job_container.conf", WHOLE)
    first = load_namespaces(path, "n1", "host")
    assert first == Namespaces(
        base_path="/scratch/host/n1",
        makes_base_path=True,
        directories=(
            PrivateDirectory("/tmp"),
            PrivateDirectory("/var/tmp"),
            PrivateDirectory("/dev/shm", is_tmpfs=True),
        ),
        init_script="/etc/init.sh",
        script="/etc/in.sh",
        script_wait_s=3,
        epilog="/etc/out.sh",
        epilog_wait_s=4,
    )
    second = load_namespaces(path, "n2", "host")
    assert second is not None and second.is_shared and second.base_path == "/local"
    assert load_namespaces(path, "n4", "host") is None


def test_a_map_of_a_node_counts_after_the_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, "namespace.yaml", YAML)
    first = load_namespaces(path, "n1", "host")
    assert first == Namespaces(
        "/scratch",
        True,
        Namespaces().directories,
        "/etc/init.sh",
        "/etc/in.sh",
        3,
        "/etc/out.sh",
        4,
    )
    second = load_namespaces(path, "n3", "host")
    assert second is not None and second.is_shared
    assert second.directories == (
        PrivateDirectory("/tmp", "/fast", ("nosuid", "noexec")),
        PrivateDirectory("/dev/shm", is_tmpfs=True),
        PrivateDirectory("/var/tmp", is_tmpfs=True),
    )
    assert second.base_paths == ("/scratch", "/fast")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("BasePath=tmp", "1: BasePath: tmp is neither none nor an absolute path below /"),
        ("BasePath=/a/../b", "1: BasePath: /a/../b is neither none nor an absolute path below /"),
        ("BasePath=/b Dirs=/", "1: Dirs: / is not an absolute path of a directory below /"),
        ("BasePath=/b Dirs=/t,/t", "1: Dirs: /t is there twice"),
        ("BasePath=/b Dirs=/t,/t/x", "1: Dirs: /t/x is below /t, so it is private already"),
        ("BasePath=/b CloneNSScript_Wait=x", "1: CloneNSScript_Wait: "),
        ("BasePath=/b NodeName=n[1", "1: NodeName: "),
        ("BasePth=/b", "unknown key in job_container.conf; did you mean BasePath"),
    ],
)
def test_a_bad_line_is_named(line: str, text: str) -> None:
    with pytest.raises(ConfErrors) as raised:
        parse_job_container_conf(line, "n1")
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("clone_ns_flags: CLONE_NEWNS,CLONE_NEWPID", "2: clone_ns_flags: CLONE_NEWPID is refused"),
        ("clone_ns_flags: [CLONE_NEWUSER]", "2: clone_ns_flags: CLONE_NEWUSER is refused"),
        ("clone_ns_flags: 3", "2: clone_ns_flags: unknown word; CLONE_NEWNS is allowed"),
        ("user_ns_script: /x", "2: user_ns_script: is refused: jobs get no user namespace"),
        ("shared: maybe", "2: shared: true or false is allowed"),
        ("clone_ns_script_wait: -1", "2: clone_ns_script_wait: seconds from 0 to 3600 are allowed"),
        ("dirs: {a: b}", "2: dirs: expected a list of paths"),
        ("dir_confs: [{path: /x, options: [suid]}]", "options: noatime, nodev"),
        ("dir_confs: [7]", "2: dir_confs: expected maps with path"),
        ("base_path: x", "2: base_path: expected an absolute path"),
        ("other: 1", "2: other: unknown key"),
    ],
)
def test_a_bad_option_is_named(tmp_path: Path, options: str, text: str) -> None:
    path = written(tmp_path, "namespace.yaml", f"defaults:\n  {options}\n")
    with pytest.raises(ConfErrors) as raised:
        load_namespaces(path, "n1", "host")
    assert text in str(raised.value)


def test_disable_bpf_token_stands_beside_the_defaults(tmp_path: Path) -> None:
    """That is its place in Slurm's manual of 26.05."""
    text = "disable_bpf_token: true\ndefaults: {base_path: /b}\n"
    known = load_namespaces(written(tmp_path, "namespace.yaml", text), "n1", "host")
    assert known is not None and known.base_path == "/b"


@pytest.mark.parametrize(
    "content",
    ["disable_bpf_token: maybe", "[1]", "defaults: 1", "node_confs: {}", "node_confs: [1]", "x: 1"],
)
def test_other_shapes_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfErrors):
        load_namespaces(written(tmp_path, "namespace.yaml", content), "n1", "host")


@pytest.mark.parametrize("kind", ["namespace/tmpfs", "namespace/linux", "job_container/tmpfs"])
def test_the_file_is_needed_and_checked(tmp_path: Path, kind: str) -> None:
    name = "namespace.yaml" if kind.endswith("linux") else "job_container.conf"
    conf = written(tmp_path, "slurm.conf", SLURM + f"PrologFlags=Contain\nNamespaceType={kind}\n")
    usual = kind.replace("job_container", "namespace")
    assert f"{tmp_path}/{name}: NamespaceType={usual} needs this file" in check(conf)
    written(tmp_path, name, "defaults: {base_path: /b}\n" if "yaml" in name else "BasePath=/b\n")
    assert check(conf) == []


def test_directories_of_slurmd_below_private_ones_are_named(tmp_path: Path) -> None:
    """slurmd does not start with them, but it may have been given another directory."""
    spool = "SlurmdSpoolDir=/tmp/spool-%n\n"
    conf = written(
        tmp_path,
        "slurm.conf",
        SLURM + spool + "PrologFlags=Contain\nNamespaceType=namespace/tmpfs\n",
    )
    own = written(tmp_path, "job_container.conf", "BasePath=/tmp/%n\n")
    text = "is below /tmp, which each job has for itself; choose another"
    expected = [f"{own}: SlurmdSpoolDir=/tmp/spool-%n {text}", f"{own}: BasePath=/tmp/%n {text}"]
    assert [line for line in check_warnings(conf) if "below" in line] == expected
    written(tmp_path, "job_container.conf", "BasePath=/b/%n Dirs=/tm\n")
    assert [line for line in check_warnings(conf) if "below" in line] == []

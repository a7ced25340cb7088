"""The files that `pyslurm-ng up` writes, and the ports it chooses."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.up import files, ports
from pyslurm_ng.up.__main__ import layout_of, main
from pyslurm_ng.up.cluster import remove_abandoned_runs
from pyslurm_ng.up.layout import SOCKET_PATH_LIMIT, BadRequest, Layout, prepared_by_others

REQUEST = files.Request(
    nodes=4, cpus=8, memory_mib=4000, gpus=2, database="", extra_lines="", cluster_name="c"
)
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
PORTS = files.Ports(slurmctld=11000, slurmdbd=11001, slurmd=11002)


def keys(text: str) -> dict[str, str]:
    """Return the simple keys of a configuration text."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key: value for key, equals, value in pairs if equals}


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    new_layout = Layout(tmp_path / "c")
    yield new_layout
    shutil.rmtree(new_layout.run, ignore_errors=True)  # elsewhere when this path is long


def write(request: files.Request, layout: Layout) -> str:
    files.write_all(request, layout, PORTS, "localhost")
    return layout.slurm_conf.read_text()


def test_nodes_have_neighbouring_ports(layout: Layout) -> None:
    line = next(x for x in write(REQUEST, layout).splitlines() if x.startswith("NodeName"))
    assert "NodeName=n[1-4] " in line
    assert "Port=[11002-11005] " in line
    assert "CPUs=8 " in line
    assert "RealMemory=4000 Gres=gpu:2 " in line


def test_one_node_needs_no_brackets(layout: Layout) -> None:
    text = write(dataclasses.replace(REQUEST, nodes=1, gpus=1), layout)
    assert "NodeName=n1 " in text
    assert "Port=11002 " in text
    assert (layout.etc / "gres.conf").read_text().endswith("/dev/nvidia0\n")


def test_gpus_are_files_that_exist(layout: Layout) -> None:
    write(REQUEST, layout)
    assert (layout.etc / "gres.conf").read_text() == (
        f"NodeName=n[1-4] Name=gpu File={layout.devices}/nvidia[0-1]\n"
    )
    assert sorted(path.name for path in layout.devices.iterdir()) == ["nvidia0", "nvidia1"]


def test_gpus_are_near_a_socket_and_linked_there(layout: Layout) -> None:
    text = write(dataclasses.replace(REQUEST, nodes=1, sockets=2), layout)
    assert " SocketsPerBoard=2 CoresPerSocket=4 " in text
    first, second = (layout.etc / "gres.conf").read_text().splitlines()
    assert first.endswith("/dev/nvidia0 Cores=0-3 Links=-1,1")
    assert second.endswith("/dev/nvidia1 Cores=4-7 Links=1,-1")


def test_no_gpus_leave_no_gres_conf_behind(layout: Layout) -> None:
    """A directory may be used again with another shape."""
    write(REQUEST, layout)
    text = write(dataclasses.replace(REQUEST, gpus=0), layout)
    assert not (layout.etc / "gres.conf").exists()
    assert "Gres" not in text


def test_secrets_are_private(layout: Layout) -> None:
    """The key signs for every user; slurmdbd.conf may hold a password."""
    write(REQUEST, layout)
    for name in ("slurm.key", "slurmdbd.conf"):
        assert stat.S_IMODE((layout.etc / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(layout.state.stat().st_mode) == 0o700
    assert stat.S_IMODE(layout.directory.stat().st_mode) == 0o755


def test_key_survives_a_second_up(layout: Layout) -> None:
    write(REQUEST, layout)
    key = (layout.etc / "slurm.key").read_bytes()
    write(REQUEST, layout)
    assert (layout.etc / "slurm.key").read_bytes() == key
    assert len(key) == 1024


def test_extra_lines_take_the_place_of_ours(layout: Layout) -> None:
    """slurm.conf refuses a key twice, so ours has to go."""
    extra = "SelectTypeParameters = CR_Core # mine\nPartitionName=x Nodes=n1 Default=YES\n"
    text = write(dataclasses.replace(REQUEST, extra_lines=extra), layout)
    assert text.count("SelectTypeParameters") == 1
    assert text.count("PartitionName") == 1
    assert "PartitionName=x Nodes=n1 Default=YES" in text


def test_database_defaults_to_sqlite_in_the_directory(layout: Layout) -> None:
    write(REQUEST, layout)
    value_of = keys((layout.etc / "slurmdbd.conf").read_text())
    assert value_of["StorageType"] == "accounting_storage/sqlite"
    assert value_of["StorageLoc"] == str(layout.state / "slurmdbd.sqlite")


def test_mysql_url_becomes_storage_keys(layout: Layout) -> None:
    url = "mysql://slurm:p%40ss%23word@db.example:3307/acct"
    assert files.storage_lines(url, layout) == [
        "StorageType=accounting_storage/mysql",
        "StorageHost=db.example",
        "StorageLoc=acct",
        "StoragePort=3307",
        "StorageUser=slurm",
        'StoragePass="p@ss#word"',
    ]


@pytest.mark.parametrize(
    "url", ["postgres://x/y", "sqlite://host/x", "mysql://h:notaport/x", "mysql://h/a/b", "nope"]
)
def test_other_databases_are_refused_with_what_is_allowed(url: str, layout: Layout) -> None:
    with pytest.raises(BadRequest, match="invalid --database"):
        files.storage_lines(url, layout)


def test_long_directories_get_a_short_run_directory(tmp_path: Path) -> None:
    """A Unix socket's path has 108 bytes in the kernel, whatever the directory's name."""
    long = Layout(tmp_path / ("d" * 100))
    assert len(str(long.run)) + 40 <= SOCKET_PATH_LIMIT
    assert long.run != Layout(tmp_path / ("d" * 101)).run
    assert long.run == Layout(tmp_path / ("d" * 100)).run


def test_env_file_can_be_sourced(layout: Layout) -> None:
    write(REQUEST, layout)
    files.write_env(layout, [Path("/opt/my tools/bin"), Path("/opt/sbin")])
    script = f'. {shlex.quote(str(layout.env_file))}; echo "$PATH|$SLURM_CONF|$PYSLURM_NG_DIR"'
    result = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin"}
    )
    path = "/opt/my tools/bin:/opt/sbin:/usr/bin"
    assert result.stdout == f"{path}|{layout.slurm_conf}|{layout.directory}\n"


@pytest.mark.parametrize("name", ["a b", "x#y", "n[1-2]", "a=b", "c%d"])
def test_directories_slurm_conf_cannot_express_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="not allowed"):
        layout_of(tmp_path / name)


def test_bad_options_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["up", "--nodes", "none"]) == 2
    assert main(["down", "--dir", str(tmp_path)]) == 1
    assert main(["dance"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("pyslurm-ng: error: ") for line in lines)


@pytest.mark.parametrize("directory", ["/proc/cluster", "/dev/null/cluster"])
def test_a_directory_that_cannot_be_written_is_one_line(
    directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--dir", directory]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"pyslurm-ng: error: cannot write {directory}")
    assert last.endswith("; --dir names another directory")


def test_the_directory_of_another_user_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pid files say which processes `down` ends."""
    write(REQUEST, layout)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BadRequest, match="belongs to another user; --dir names another"):
        write(REQUEST, layout)


@pytest.mark.parametrize("part", ["", "etc", "log", "run", "spool"])
def test_what_others_prepared_is_refused(
    part: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that they know, and links through which root would write its own files."""
    path = layout.run if part == "run" else layout.directory / part
    path.mkdir(parents=True)
    layout.directory.mkdir(exist_ok=True)
    path.chmod(0o777)
    with pytest.raises(BadRequest, match="every user may write to"):
        write(REQUEST, layout)
    path.chmod(0o775)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BadRequest, match="belongs to another user"):
        write(REQUEST, layout)
    assert not layout.env_file.exists() and not layout.slurm_conf.exists()


@as_root
def test_no_link_of_others_leads_to_a_directory(tmp_path: Path) -> None:
    """Behind ./pyslurm-ng-cluster, a link to /, `up` wrote /etc/hosts and removed /run/*.pid."""
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    pid_file = root / "run" / "sshd.pid"
    pid_file.touch()
    link = tmp_path / "link"
    link.symlink_to(root)
    for layout in (Layout(link), Layout(link / "c")):
        os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
        with pytest.raises(BadRequest, match="link is a link of another user"):
            write(REQUEST, layout)
        os.chown(link, 0, 0, follow_symlinks=False)
        assert prepared_by_others(layout) == ""
    assert pid_file.exists() and not (root / "etc").exists()


@as_root
def test_root_makes_no_cluster_where_another_user_may_rename(tmp_path: Path) -> None:
    """What was checked would be another directory a moment later."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(BadRequest, match="theirs belongs to another user"):
        write(REQUEST, Layout(theirs / "c"))
    ours = tmp_path / "link"
    ours.symlink_to(theirs)
    assert "belongs to another user" in prepared_by_others(Layout(ours / "c"))
    theirs.chmod(0o777)
    os.chown(theirs, 0, 0)
    assert "every user may write to" in prepared_by_others(Layout(theirs / "c"))
    theirs.chmod(0o1777)
    assert prepared_by_others(Layout(theirs / "c")) == ""


def test_shards_without_gpus_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """They were left out without a word."""
    assert main(["up", "--shards", "4", "--no-namespaces"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        "pyslurm-ng: error: --shards are parts of GPUs: say with --gpus how many each node has"
    )


def test_accounts_are_of_the_cluster_that_the_lines_name() -> None:
    """ClusterName= of --conf takes the place of --cluster-name."""
    assert files.cluster_name(REQUEST) == "c"
    request = dataclasses.replace(REQUEST, extra_lines="clustername=Mine\n")
    assert files.cluster_name(request) == "mine"


def test_lines_for_slurm_conf_are_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF\xd0\x00")
    assert main(["up", "--dir", str(tmp_path / "c"), "--conf", str(program)]) == 1
    assert capsys.readouterr().err.endswith(f"error: --conf {program}: not a text file\n")


def test_free_row_avoids_ports_in_use() -> None:
    first = ports.free_row(3)
    assert ports.LOWEST <= first <= ports.HIGHEST - 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        assert not ports.is_free(first + 1)


def test_too_many_ports_are_refused() -> None:
    with pytest.raises(ports.NoPorts, match="more than there are"):
        ports.free_row(20_000)


def test_run_directories_of_deleted_clusters_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of clusters that still have their directory stay."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    long = "x" * SOCKET_PATH_LIMIT
    kept, deleted = Layout(tmp_path / f"{long}1"), Layout(tmp_path / f"{long}2")
    for layout in (kept, deleted):
        write(REQUEST, layout)
        write(REQUEST, layout)  # as `up` does for a cluster that was stopped
    (deleted.run / "slurmctld.pid").write_text("no number")
    shutil.rmtree(deleted.directory)
    remove_abandoned_runs()
    assert kept.run.parent == temporary
    assert list(temporary.iterdir()) == [kept.run]


def test_slurmdbd_trusts_the_same_peers_as_the_others(layout: Layout) -> None:
    """With AuthType=auth/munge for slurmctld alone, all accounting would be lost."""
    lines = "AuthType=auth/munge authinfo=socket=/run/m.sock\nAccountingStoragePort=7001 # mine\n"
    text = write(dataclasses.replace(REQUEST, extra_lines=lines), layout)
    assert "AuthType=auth/slurm" not in text
    assert "AccountingStoragePort=11001" not in text
    dbd = keys((layout.etc / "slurmdbd.conf").read_text())
    assert (dbd["AuthType"], dbd["AuthInfo"]) == ("auth/munge", '"socket=/run/m.sock"')
    assert dbd["DbdPort"] == "7001"


def test_lines_for_slurmdbd_conf_take_the_place_of_ours(layout: Layout) -> None:
    """A site tries its purge keys and PrivateData before it has a cluster for them."""
    lines = "PurgeJobAfter=2months\nstoragetype=accounting_storage/mysql # theirs\n"
    write(dataclasses.replace(REQUEST, extra_dbd_lines=lines), layout)
    text = (layout.etc / "slurmdbd.conf").read_text()
    assert text.lower().count("storagetype") == 1
    assert text.endswith("# Your lines.\n" + lines)
    assert stat.S_IMODE((layout.etc / "slurmdbd.conf").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("option", "line", "text"),
    [
        ("--conf", "SlurmUser=nobody", "SlurmUser cannot be set here; use --slurm-user"),
        ("--conf", "slurmdpidfile=/x", "SlurmdPidFile cannot be set here: `pyslurm-ng up` sets it"),
        ("--dbd-conf", "PidFile=/x", "PidFile cannot be set here: `pyslurm-ng up` sets it"),
        (
            "--dbd-conf",
            "DbdPort=7",
            "DbdPort cannot be set here; use --port, or AccountingStorageP",
        ),
        (
            "--conf",
            "SlurmUser=slurm\nSlurmctldPidFile=/x",
            "SlurmUser cannot be set here; use --slurm-user;"
            " --conf: SlurmctldPidFile cannot be set here: `pyslurm-ng up` sets it",
        ),
        (
            "--conf",
            "NodeName=n[1-8] CPUs=4",
            "NodeName=n[1-8]: `pyslurm-ng up` writes n1 itself; use --nodes,",
        ),
        (
            "--conf",
            "NodeName=cn[01-99] CPUs=4",
            "NodeName=cn[01-99]: `pyslurm-ng up` starts n1 only; take the line out, or add State=",
        ),
        ("--conf", "NodeName=DEFAULT State=UNKNOWN\nNodeName=a", "NodeName=a: `pyslurm-ng up` st"),
    ],
)
def test_keys_that_up_goes_by_are_refused(
    option: str, line: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With another pid file `down` left the daemon running, and `up` had nothing to wait for."""
    lines = tmp_path / "lines.conf"
    lines.write_text(f"# mine\n{line}\n")
    assert main(["up", "--dir", str(tmp_path / "c"), option, str(lines)]) == 1
    assert f"error: {option}: {text}" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "lines",
    [
        "NodeName=cloud[1-9] State=CLOUD",
        "NodeName=DEFAULT State=FUTURE\nNodeName=later",
        "NodeName=gone State=DOWN",
        "NodeName=broken[1-",
    ],
)
def test_nodes_that_need_no_slurmd_are_left_to_slurmctld(lines: str) -> None:
    """A site tries its cloud; a list with a mistake is named with its line by slurmctld."""
    with pytest.raises(BadRequest, match="--conf: NodeName=n2: "):
        files.refuse_nodes(f"{lines}\nNodeName=n2", 2)


def test_ports_may_be_chosen() -> None:
    """Firewalls and documents name ports; a port that is used is named."""
    first = ports.free_row(4)
    assert ports.chosen_row(first, 4) == first
    with socket.socket() as other:
        other.bind(("", first + 2))
        with pytest.raises(ports.NoPorts, match=f"--port {first}: port {first + 2} is in use"):
            ports.chosen_row(first, 4)
    with socket.socket() as other:
        other.bind(("", first + 10_000))
        with pytest.raises(ports.NoPorts, match=f"{first + 10_000}, which belongs to {first},"):
            ports.chosen_row(first, 4)


@pytest.mark.parametrize(
    ("first", "text"), [(65_534, "go beyond 65535"), (15_000, "would be needed twice")]
)
def test_ports_that_cannot_be(first: int, text: str) -> None:
    with pytest.raises(ports.NoPorts, match=text):
        ports.chosen_row(first, 3 if first > 60_000 else 10_001)


@pytest.mark.parametrize(
    ("lines", "is_there"),
    [
        ("PartitionName=long Nodes=ALL\n", True),
        ("PartitionName=long Nodes=ALL Default=YES\n", False),
        ("partitionname=debug Nodes=n1\n", False),
        ("PartitionName=DEFAULT Default=YES\n", True),
    ],
)
def test_there_is_a_default_partition(layout: Layout, lines: str, is_there: bool) -> None:
    """Lines that add a partition must not take away the one that plain `sbatch` uses."""
    text = write(dataclasses.replace(REQUEST, extra_lines=lines), layout)
    assert ("PartitionName=debug Nodes=ALL Default=YES" in text) is is_there

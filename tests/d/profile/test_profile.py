"""A step's profile from its samples to a file of HDF5, and to a server of InfluxDB."""

from __future__ import annotations

import http.server
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.conf.acct_gather_conf import parse_acct_gather_conf
from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.profile import hdf5_file, influxdb
from pyslurm_ng.d.profile.samples import (
    ENERGY,
    FILESYSTEM,
    MOST_BYTES,
    NETWORK,
    TASK,
    SampleFile,
    SampleReader,
)
from pyslurm_ng.d.profile.series import Row, Rows
from pyslurm_ng.d.spec import step_profile
from tests.d.stepd.supervised import Template
from tests.world.waiting import wait_until

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "profile"
ABOUT: dict[str, Any] = {
    "node": "p1", "node_index": 0, "ntasks": 2, "cpus_per_task": 1, "start_s": 1000,
    "labels": [""], "gpus": False, "job": 5, "step": "batch", "step_number": -5,
}  # fmt: skip


def rows_of(*samples: list[int], has_gpus: bool = False) -> list[Row]:
    rows = Rows(has_gpus=has_gpus)
    return [row for sample in samples for row in rows.of(sample)]


def test_totals_become_amounts_since_the_sample_before() -> None:
    """As in Slurm's series: CPU time and its share, MB read and written, packets; not memory."""
    mib = 1 << 20
    first, second = rows_of(
        [TASK, 1, 1000, 2_400_000, 1_000_000, 500, 900, 3, 5 * mib, 0, 0, 0],
        [TASK, 1, 1010, 2_400_000, 6_000_000, 400, 900, 4, 9 * mib, mib // 2, 0, 0],
    )
    assert first.values == (2400, 0.0, 0.0, 500, 900, 3, 0.0, 0.0)
    assert second.values == (2400, 5.0, 50.0, 400, 900, 4, 4.0, 0.5)
    network = rows_of([NETWORK, -1, 1, 5, 6, mib, 0], [NETWORK, -1, 2, 8, 6, 3 * mib, 0])
    assert [row.values for row in network] == [(0, 0, 0.0, 0.0), (3, 0, 2.0, 0.0)]
    lustre = rows_of([FILESYSTEM, -1, 1, 0, 0, 0, 0], [FILESYSTEM, -1, 2, 7, 2, mib, 2 * mib])
    assert lustre[1].values == (7, 1.0, 2, 2.0)
    assert rows_of([ENERGY, -1, 1, 250_900])[0].values == (250,)
    gpu = rows_of([TASK, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2048, 85], has_gpus=True)
    assert gpu[0].values[-2:] == (2, 85.0)


def test_a_reader_sees_what_was_written_so_far(tmp_path: Path) -> None:
    """A file that is being written may end in the middle of a sample."""
    path = tmp_path / "samples"
    samples = SampleFile(str(path))
    reader = SampleReader(str(path))
    samples.add(NETWORK, -1, 7, [1, 2, 3, 4])
    assert list(reader.new()) == [[NETWORK, -1, 7, 1, 2, 3, 4]]
    samples.add(TASK, 0, 8, [2**40])
    samples.close()
    with path.open("ab") as file:
        file.write(b"\x00\x09\x96")
    assert list(reader.new()) == [[TASK, 0, 8, 2**40]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    reader.close()


def test_a_file_of_samples_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyslurm_ng.d.profile.samples.MOST_BYTES", 40)
    samples = SampleFile(str(tmp_path / "samples"))
    for number in range(10):
        samples.add(NETWORK, -1, number, [1, 2, 3, 4])
    samples.close()
    assert 0 < samples.lost < 10 and (tmp_path / "samples").stat().st_size <= 60 < MOST_BYTES


def test_the_file_has_slurms_layout(tmp_path: Path) -> None:
    """Groups, names, types and attributes are those of a file that Slurm 22.05 wrote."""
    h5py = pytest.importorskip("h5py")
    sample = [TASK, 0, 1001, 0, 10, 5, 5, 0, 0, 0, 0, 0]
    rows = rows_of(sample, [TASK, 1, *sample[2:]], [NETWORK, -1, 1001, 0, 0, 0, 0])
    path = tmp_path / "x.h5"
    path.write_bytes(hdf5_file.image(ABOUT, rows))

    def layout(name: Path) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        with h5py.File(name) as file:
            shown["attributes"] = {key: value.dtype.kind for key, value in file["p1"].attrs.items()}
            file.visititems(
                lambda key, entry: shown.setdefault(key, getattr(entry, "dtype", "group"))
            )
        return shown

    assert layout(path) == layout(GOLDEN / "2_0_p1.h5")
    with h5py.File(path) as file:
        assert tuple(file["p1/Tasks/1"][0])[:2] == (1, 1001)
        assert file["p1"].attrs["Start Time"][0].startswith(b"Thu Jan  1 00:16:40")


def test_labels_of_sensors_are_columns(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    about = {**ABOUT, "labels": ["Node", "Socket0"]}
    path = tmp_path / "x.h5"
    path.write_bytes(hdf5_file.image(about, rows_of([ENERGY, -1, 1001, 200_000, 90_000])))
    with h5py.File(path) as file:
        assert file["p1/Energy"].dtype.names[2:] == ("NodePower", "Socket0Power")
        assert tuple(file["p1/Energy"][0])[2:] == (200, 90)


OWNER = {"user": "someone", "uid": os.getuid(), "gid": os.getgid(), "groups": [os.getgid()]}


def test_a_link_of_the_user_leads_nowhere(tmp_path: Path) -> None:
    """The file is written as the user, and takes the place of whatever has its name."""
    (tmp_path / "someone").mkdir()
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "someone" / "1_0_n1.h5").symlink_to(target)
    pid = os.fork()
    if not pid:  # the process becomes the user for ever
        code = 1
        try:
            hdf5_file.write_as_owner(str(tmp_path), OWNER, "1_0_n1.h5", b"data")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert target.read_text() == "kept"
    written = tmp_path / "someone" / "1_0_n1.h5"
    assert written.read_bytes() == b"data" and not written.is_symlink()
    assert [path.name for path in (tmp_path / "someone").iterdir()] == ["1_0_n1.h5"]


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that all users may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="psng-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root writes as others")
def test_root_writes_as_the_user_only(open_path: Path) -> None:
    """A directory of root's in the user's place takes nothing; a new one is the user's own."""
    owner = {"user": "someone", "uid": 65534, "gid": 65534, "groups": [65534]}

    def write(directory: Path) -> int:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                hdf5_file.write_as_owner(str(directory), owner, "1_0_n1.h5", b"data")
                code = 0
            except OSError as error:
                code = error.errno or 1
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    base = open_path / "profiles"
    base.mkdir(mode=0o755)
    assert write(base) == 0
    status = (base / "someone" / "1_0_n1.h5").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65534, 0o600)
    assert stat.S_IMODE((base / "someone").stat().st_mode) == 0o700
    roots = open_path / "roots"
    roots.mkdir(mode=0o755)
    (roots / "someone").symlink_to(open_path / "elsewhere")
    (open_path / "elsewhere").mkdir(mode=0o755)
    assert write(roots) == 13
    assert list((open_path / "elsewhere").iterdir()) == []


# InfluxDB -------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """What InfluxDB would get; `answer` is the status that it sends."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []  # path, Authorization, body
        self.answer = 204
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Takes a POST."""

    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.path, self.headers.get("Authorization", ""), body))
        self.send_response(self.server.answer)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"no bucket")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.shutdown()
    made.server_close()


def test_lines_are_those_that_slurm_sends() -> None:
    """A line for each value, with Slurm's tags; grouped_fields makes one line of each sample."""
    sample = [TASK, 1, 1795936678, 1_222_000, 0, 3060, 4360, 0, 0, 0, 0, 0]
    rows = rows_of(sample, [NETWORK, -1, 1795936677, 0, 0, 0, 0])
    texts = list(influxdb.lines(rows, {**ABOUT, "step_number": 0}, {}, is_grouped=False))
    assert texts[:4] == [
        "CPUFrequency,job=5,step=0,task=1,host=p1 value=1222 1795936678",
        "CPUTime,job=5,step=0,task=1,host=p1 value=0.00 1795936678",
        "CPUUtilization,job=5,step=0,task=1,host=p1 value=0.00 1795936678",
        "RSS,job=5,step=0,task=1,host=p1 value=3060 1795936678",
    ]
    assert texts[-1] == "OutMB,job=5,step=0,task=Network,host=p1 value=0.00 1795936677"
    tags = {"user": "a b,c=d", "uid": ""}
    grouped = list(influxdb.lines(rows, ABOUT, tags, is_grouped=True))
    assert grouped[1] == (
        r"Network,job=5,step=-5,task=Network,host=p1,user=a\ b\,c\=d "
        "PacketsIn=0,PacketsOut=0,InMB=0.00,OutMB=0.00 1795936677"
    )


def test_a_request_names_database_policy_and_user(server: Server) -> None:
    conf = parse_acct_gather_conf(
        f'ProfileInfluxDBHost={server.address}\nProfileInfluxDBDatabase="slurm db"\n'
        "ProfileInfluxDBRTPolicy=autogen\nProfileInfluxDBUser=u1\nProfileInfluxDBPass=p1\n"
    )
    influxdb.InfluxServer(conf).send(["a value=1 2", "b value=1 2"])
    assert server.asked == [
        ("/write?db=slurm+db&rp=autogen&precision=s", "Basic dTE6cDE=",
         "a value=1 2\nb value=1 2\n")
    ]  # fmt: skip
    server.answer = 404
    with pytest.raises(influxdb.InfluxError, match="HTTP 404 no bucket"):
        influxdb.InfluxServer(conf).send(["a value=1 2"])


def test_a_server_that_is_not_there_is_named() -> None:
    conf = parse_acct_gather_conf("ProfileInfluxDBHost=127.0.0.1:1\nProfileInfluxDBDatabase=x\n")
    with pytest.raises(influxdb.InfluxError, match=r"127\.0\.0\.1:1: .*refused"):
        influxdb.InfluxServer(conf).send(["a value=1 2"])


# A step ---------------------------------------------------------------------------------------


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Template]:
    made = Template(tmp_path)
    yield made
    made.close()


def profile(folder: Path, kind: str, **every_s: int) -> dict[str, Any]:
    about = {
        **ABOUT, "node": "n1", "step": "batch", "kind": kind, "owner": OWNER,
        "conf": str(folder / "acct_gather.conf"),
        "tags": {"user": "someone", "uid": "7", "cluster": "c"},
    }  # fmt: skip
    return {
        "every_s": every_s,
        "meter": str(folder / snapshot.FILE),
        "command": step_profile.publisher_command(),
        "starts_at_once": kind == "influxdb",
        "about": about,
    }


def write_snapshot(folder: Path, **fields: Any) -> None:
    base = {"boot": snapshot.boot_id(), "time_us": snapshot.now_us(), "processes": [], "gpus": {},
            "node": [5, 150_000], "mean": 0, "state": {}}  # fmt: skip
    snapshot.write(str(folder / snapshot.FILE), base | fields)


def test_a_step_leaves_a_file_of_its_user(template: Template, tmp_path: Path) -> None:
    """With a sample of the task and of the node's power; the samples themselves are removed."""
    h5py = pytest.importorskip("h5py")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "acct_gather.conf").write_text(f"ProfileHDF5Dir={tmp_path}/profiles\n")
    write_snapshot(tmp_path, network=[1, 2, 3, 4])
    spec = profile(tmp_path, "hdf5", task=1, energy=1, network=1)
    end, _ = template.run("sleep 1.5", acct_every=1, profile=spec)
    assert end["status"] == 0
    (path,) = (tmp_path / "profiles" / "someone").iterdir()
    assert path.name == "5_batch_n1.h5"
    with h5py.File(path) as file:
        assert file["n1/Tasks/0"]["RSS"][0] > 0
        assert set(file["n1/Energy"]["Power"]) == {150}
        assert list(file["n1/Network"]["PacketsIn"][:2]) == [0, 0]
    assert not list(tmp_path.glob("*.profile"))


def test_a_profile_that_cannot_be_written_is_said(template: Template, tmp_path: Path) -> None:
    """To the user; the step ends as it would."""
    (tmp_path / "acct_gather.conf").write_text(f"ProfileHDF5Dir={tmp_path}/missing\n")
    write_snapshot(tmp_path)
    end, said = template.run("true", profile=profile(tmp_path, "hdf5", energy=1))
    assert end["status"] == 0
    assert "profile: " in said and "5_batch_n1.h5: No such file or directory" in said


def test_a_step_sends_its_samples(template: Template, tmp_path: Path, server: Server) -> None:
    """What is left at the end of the step is sent then."""
    (tmp_path / "acct_gather.conf").write_text(
        f"ProfileInfluxDBHost={server.address}\nProfileInfluxDBDatabase=slurm\n"
        "ProfileInfluxDBExtraTags=user,uid,cluster\nProfileInfluxDBFlags=grouped_fields\n"
        "ProfileInfluxDBFrequency=1\n"
    )
    write_snapshot(tmp_path)
    script = f"#!/bin/bash\nwhile ! [ -e {tmp_path}/go ]; do sleep 0.1; done"
    step = template.start(template.spec(script, profile=profile(tmp_path, "influxdb", energy=1)))
    wait_until(lambda: bool(server.asked))
    (tmp_path / "go").touch()
    assert step.end()["status"] == 0
    texts = "".join(body for _, _, body in server.asked).splitlines()
    tags = "user=someone,uid=7,cluster=c"
    assert texts and all(
        line.startswith(f"Energy,job=5,step=-5,task=Energy,host=n1,{tags} Power=150 ")
        for line in texts
    )


def test_a_server_that_never_answers_delays_no_step_for_ever(
    template: Template, tmp_path: Path
) -> None:
    """ProfileInfluxDBTimeout bounds each request, and the supervisor bounds the whole."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (tmp_path / "acct_gather.conf").write_text(
            f"ProfileInfluxDBHost=127.0.0.1:{port}\nProfileInfluxDBDatabase=slurm\n"
            "ProfileInfluxDBTimeout=1\n"
        )
        write_snapshot(tmp_path)
        end, said = template.run("true", profile=profile(tmp_path, "influxdb", energy=1))
    assert end["status"] == 0
    assert f"profile: 127.0.0.1:{port}: timed out" in said

"""-M: commands ask slurmdbd where controllers are, and then each of them, with real sockets."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, error_text
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.cli import clusters
from pyslurm_ng.cli.accounting import sreport_session
from pyslurm_ng.cli.accounting.sreport_conditions import Conditions
from pyslurm_ng.cli.command import read_conf
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.dbd import registration, schema
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.ingest.batches import Frame, ingest
from pyslurm_ng.wire import client
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.daemon_link import Link
from pyslurm_ng.wire.dbd_messages import RegisterCluster, RegisterExternal
from pyslurm_ng.wire.job_messages import TestJob, WillRun
from pyslurm_ng.wire.stream import Call
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed
from tests.dbd.accounting_room import PORT, manage, serving, submitted
from tests.wire.wire_room import Room, authenticator, now_us

HEAD = "JOBID\n"
EXTERNAL_PORT = PORT + 1


def answering(reference: ReferenceCluster, starts: dict[str, int]) -> Callable[[Call], None]:
    """Return what answers requests as the controller of a reference cluster does.

    `starts` says when, in seconds, a test job would start, or the number of a refusal.
    """
    local = reference.client("root")

    def handle(call: Call) -> None:
        fields = msgspec.to_builtins(call.request, builtin_types=(bytes,))
        if isinstance(call.request, TestJob):
            start = starts[reference.cluster.cluster_name]
            if start in (BUSY, REFUSED):
                call.error(start, error_text(start))
            else:
                call.reply(WillRun(1, start * SECOND_US, "n1", 1, "debug"))
            return
        try:
            call.reply(local.call(call.kind, fields))
        except SlurmError as error:
            call.error(error.code, error.text)

    return handle


def remembering(links: list[Link], connect: Callable[..., Link]) -> Callable[..., Link]:
    """Return what connects and keeps the connection in a list."""

    def connected(*arguments: Any) -> Link:
        links.append(connect(*arguments))
        return links[-1]

    return connected


@dataclass
class Site:
    """Clusters c1 (this one, empty), c2 (with the reference jobs) and c3 (away); slurmdbd."""

    capture: pytest.CaptureFixture[str]
    reference: ReferenceCluster
    links: list[Link]
    starts: dict[str, int]
    store: str

    def run(self, *words: str) -> Printed:
        """Run a command in this process."""
        self.capture.readouterr()
        module = importlib.import_module(f"pyslurm_ng.cli.{words[0]}")
        try:
            code = module.main(list(words[1:]))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        return self.printed(code)

    def printed(self, code: int) -> Printed:
        """Return what was printed since; end what the end of a process ends."""
        while self.links:
            self.links.pop().close()
        sys.stdout.flush()
        out, err = self.capture.readouterr()
        return Printed(out, err, code)


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Site]:
    """Three clusters of one slurmdbd; the commands' slurm.conf is that of c1.

    An external slurmdbd knows them, too, but c3 at another place.
    """
    database = Database(sqlite_url(f"{tmp_path}/acct.sqlite"))
    external = Database(sqlite_url(f"{tmp_path}/external.sqlite"))
    database.open()
    external.open()
    (tmp_path / "c2").mkdir()
    reference, here = queue(), ReferenceCluster()
    here.cluster.cluster_name = "c1"
    reference.cluster.cluster_name = "c2"
    starts: dict[str, int] = {}
    c2 = Room(tmp_path / "c2", handler=answering(reference, starts))
    c2.authenticator = authenticator(cluster="c2", clock_us=now_us)
    with (
        serving(external, tmp_path, EXTERNAL_PORT),
        serving(database, tmp_path),
        Room(tmp_path, handler=answering(here, starts)) as c1,
        c2,
    ):
        conf = "".join(f"{key}={value}\n" for key, value in c1.conf.items())
        (tmp_path / "slurm.conf").write_text(
            f"{conf}AccountingStorageType=accounting_storage/slurmdbd\n"
            f"AccountingStoragePort={PORT}\n"
            f"AccountingStorageExternalHost=localhost:{EXTERNAL_PORT}\n"
        )
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
        for name, port in (("c1", 16817), ("c2", c2.port), ("c3", 1)):
            request = RegisterCluster(name, "127.0.0.1", port, f"journal-{name}")
            registration.register(database, request)
        for name, port in (("c1", 16817), ("c2", c2.port), ("c3", 2)):
            registration.register_external(external, RegisterExternal(name, "127.0.0.1", port))
        links: list[Link] = []
        for name in ("connect_unix", "connect_tcp"):
            monkeypatch.setattr(client, name, remembering(links, getattr(client, name)))
        yield Site(capfd, reference, links, starts, f"{tmp_path}/acct.sqlite")
    database.close()
    external.close()


def test_each_cluster_is_listed_under_its_name(site: Site) -> None:
    """The other controller believes the token that a daemon of this cluster makes for it."""
    printed = site.run("squeue", "-M", "c1,c2", "-j", "22", "-o", "%i %u")
    # Here no job has that id, which is an error for one id.
    assert printed.stdout == "CLUSTER: c1\n\nCLUSTER: c2\nJOBID USER\n22 alice\n"
    assert printed.stderr == "slurm_load_jobs error: Invalid job id specified\n"
    assert printed.code == 1
    printed = site.run("sinfo", "--clusters=c2,C1", "-o", "%R")
    assert printed.stdout.startswith("CLUSTER: c2\nPARTITION\n")
    assert "\n\nCLUSTER: c1\nPARTITION\n" in printed.stdout
    assert (printed.stderr, printed.code) == ("", 0)


def test_all_and_the_variable_name_clusters_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that does not answer costs one line; what scripts read has no headings."""
    printed = site.run("squeue", "-M", "all", "-o", "%i", "-n", "train")
    assert printed.stdout == f"CLUSTER: c1\n{HEAD}\nCLUSTER: c2\n{HEAD}22\n\nCLUSTER: c3\n"
    assert printed.stderr == (
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    )
    assert printed.code == 1
    monkeypatch.setenv("SLURM_CLUSTERS", "c2,c1")
    assert site.run("squeue", "-h", "-o", "%i", "-n", "train") == Printed("22\n", "", 0)


def test_names_that_are_no_clusters_are_named(site: Site) -> None:
    """As in Slurm; those beside them are shown."""
    unknown = "squeue: error: No cluster 'mars' known by database.\n"
    printed = site.run("squeue", "-M", "mars,c2", "-h", "-o", "%i", "-n", "train")
    assert printed == Printed("22\n", unknown, 0)
    printed = site.run("squeue", "-M", "mars")
    assert (printed.stdout, printed.code) == ("", 1)
    assert printed.stderr == unknown + (
        "squeue: error: 'mars' can't be reached now, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters.\n"
    )
    assert site.run("sacctmgr", "-i", "add", "cluster", "peer").code == 0
    printed = site.run("sinfo", "-M", "peer,c1", "-h", "-o", "%R")
    assert printed.stderr == "sinfo: error: Slurmctld on 'peer' hasn't registered yet.\n"
    assert printed.code == 0
    printed = site.run("sinfo", "-M", "all", "-h", "-o", "%R")
    assert "hasn't registered" not in printed.stderr, "it was not named"


def test_an_external_slurmdbd_is_asked_for_clusters_that_are_not_known_here(
    site: Site, tmp_path: Path
) -> None:
    """AccountingStorageExternalHost. If it is away, that costs a line."""
    assert site.run("sacctmgr", "-i", "delete", "cluster", "c2").code == 0
    for names in ("c2", "c2,c1"):
        printed = site.run("squeue", "-M", names, "-h", "-o", "%i", "-n", "train")
        assert printed == Printed("22\n", "", 0)
    assert "22" in site.run("squeue", "-M", "all", "-h", "-o", "%i", "-n", "train").stdout
    path = tmp_path / "slurm.conf"
    text = path.read_text()
    path.write_text(text.replace(f"localhost:{EXTERNAL_PORT}", "localhost:1"))
    printed = site.run("squeue", "-M", "c2,c1", "-h")
    assert printed.stderr.splitlines()[1:] == ["squeue: error: No cluster 'c2' known by database."]
    assert "Problem talking to the database" in printed.stderr
    path.write_text(text.replace(f"localhost:{EXTERNAL_PORT}", "localhost:none"))
    printed = site.run("squeue", "-M", "c2")
    assert printed.stderr == (
        "squeue: error: AccountingStorageExternalHost: 'localhost:none' is no address: HOST or "
        "HOST:PORT is allowed\n"
    )


@pytest.mark.parametrize("command", ["scontrol", "sprio", "sdiag", "strigger"])
def test_some_commands_ask_one_cluster(site: Site, command: str) -> None:
    """More than one is refused with Slurm's text."""
    more_words = {"scontrol": ["show", "job", "22", "-o"], "strigger": ["--get"]}
    words = more_words.get(command, [])
    assert site.run(command, "-M", "c2", *words).code == 0
    printed = site.run(command, "-M", "c1,c2", *words)
    text = f"{command}: fatal: Only one cluster can be used at a time with {command}\n"
    assert printed == Printed("", text, 1)


def test_scontrol_moves_between_clusters(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cluster NAME` in an interactive session; without a name, back to this one."""
    lines = iter(["cluster c2\n", "show job 22\n", "cluster\n", "show job 22\n", ""])

    class Typed:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return next(lines)

    monkeypatch.setattr(sys, "stdin", Typed())
    printed = site.run("scontrol", "-o")
    assert "JobId=22 JobName=train" in printed.stdout
    assert "Invalid job id specified" in printed.stderr


@pytest.fixture
def federation(site: Site) -> Site:
    """All three clusters are one federation; c3 has never registered."""
    database = Database(sqlite_url(site.store))
    manage(database, "add federation fed clusters=c1,c2,c3")
    manage(database, "modify cluster c2 set features=gpu,ib")
    with database.write() as connection:
        clusters_table = schema.clusters
        connection.execute(
            clusters_table.update().where(clusters_table.c.name == "c3").values(control_port=0)
        )
    database.close()
    return site


@pytest.mark.parametrize(
    "words", ["squeue -j 22 -o %i", "sinfo -o %R", "sprio -j 22 -o %i", "scontrol -o show job 22"]
)
def test_lists_of_a_federation_are_those_of_its_clusters(federation: Site, words: str) -> None:
    """Each below its name, as with -M; a cluster that never registered is named."""
    name, *rest = words.split()
    printed = federation.run(name, "--federation", *rest)
    assert printed.stdout.startswith("CLUSTER: c1\n") and "CLUSTER: c2\n" in printed.stdout
    assert f"{name}: error: Slurmctld on 'c3' hasn't registered yet.\n" in printed.stderr
    assert "CLUSTER" not in federation.run(name, "--federation", "--local", *rest).stdout
    assert "CLUSTER" not in federation.run(name, *rest).stdout


def test_fed_display_shows_the_federation_until_local_is_wanted(
    federation: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FederationParameters=fed_display; -M and --local go before it, and scancel never follows."""
    add_line(monkeypatch, "FederationParameters=fed_display")
    printed = federation.run("squeue", "-o", "%i")
    assert "CLUSTER: c2\n" in printed.stdout and printed.code == 0
    assert "CLUSTER: c2" not in federation.run("squeue", "-M", "c1", "-o", "%i").stdout
    assert "CLUSTER" not in federation.run("squeue", "--local", "-o", "%i").stdout
    monkeypatch.setenv("SQUEUE_LOCAL", "1")
    assert "CLUSTER" not in federation.run("squeue", "-o", "%i").stdout
    federation.run("scancel", "-n", "train")
    job = federation.reference.cluster.jobs[22]
    assert not job.kill_us and not job.end_us


def test_a_cluster_without_a_federation_is_shown_alone(site: Site) -> None:
    """--federation changes nothing there, as in Slurm: no line with its name."""
    printed = site.run("squeue", "--federation", "-o", "%i")
    assert printed == Printed("JOBID\n", "", 0)
    assert site.run("scontrol", "show", "federation") == Printed("", "", 0)


def test_the_federation_is_shown_with_this_cluster_first(federation: Site) -> None:
    """The layout is Slurm 22.05's."""
    lines = federation.run("scontrol", "show", "federation").stdout.splitlines()
    assert lines[0] == "Federation: fed"
    assert lines[1].startswith("Self:       c1:127.0.0.1:")
    assert lines[1].endswith(" ID:1 FedState:ACTIVE Features:")
    assert lines[2].endswith(
        " ID:2 FedState:ACTIVE Features:gpu,ib PersistConnSend/Recv:No/No Synced:No"
    )
    assert lines[3].startswith("Sibling:    c3:127.0.0.1:0 ID:3 ")


def test_accounting_of_a_federation_is_that_of_its_clusters(federation: Site) -> None:
    """Jobs of all are in one table, and reports have a line for each cluster."""
    database = Database(sqlite_url(federation.store))
    for cluster_id, name in ((1, "c1"), (2, "c2")):
        frame = Frame(1, 1, [submitted(now_us(), 10 * cluster_id)])
        ingest(database, cluster_id, f"journal-{name}", 0, [frame])
    database.close()
    words = ("-a", "-n", "-X", "-P", "-o", "jobid,cluster")
    assert federation.run("sacct", *words, "--federation").stdout == "10|c1\n20|c2\n"
    assert federation.run("sacct", *words, "--federation", "--local").stdout == "10|c1\n"
    assert federation.run("sacct", *words).stdout == "10|c1\n"
    reports = sreport_session.Session({"federation": ""})
    assert reports.clusters(Conditions("cluster", [])) == ["c1", "c2", "c3"]
    reports.options = {"local": ""}
    assert reports.clusters(Conditions("cluster", [])) == ["c1"]
    reports.close()


def add_line(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Add a line to the slurm.conf that commands read."""
    path = Path(os.environ["SLURM_CONF"])
    path.write_text(f"{path.read_text()}{line}\n")


def test_jobs_are_cancelled_on_each_cluster(site: Site) -> None:
    """Nothing is printed between them."""
    assert site.run("scancel", "-M", "c2,c1", "-n", "train") == Printed("", "", 0)
    assert site.reference.cluster.jobs[22].kill_us or site.reference.cluster.jobs[22].end_us


BUSY = int(Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE)
REFUSED = int(Errno.ESLURM_INVALID_PARTITION_NAME)
AWAY = "Problem with submit to cluster c3: Unable to contact slurm controller (connect failure)"
WRONG = "Problem with submit to cluster c2: Invalid partition name specified"


@pytest.mark.parametrize("command", ["sbatch", "salloc", "srun"])
@pytest.mark.parametrize(
    ("names", "starts", "chosen", "said"),
    [
        ("c2", {}, "c2", []),  # it decides itself
        ("c1,c2", {"c1": 200, "c2": 100}, "c2", []),
        ("c2,c1", {"c1": 100, "c2": 100}, "c1", []),  # the nearer one
        ("c1,c2", {"c1": BUSY, "c2": 100}, "c2", []),
        ("c2,c1", {"c1": BUSY, "c2": BUSY}, "c1", []),  # it waits there
        ("all", {"c1": 100, "c2": REFUSED}, "c1", [WRONG, AWAY]),
        ("c2,c3", {"c2": REFUSED}, "", [WRONG, AWAY, "Can't run on any of the specified clusters"]),
    ],
)
def test_a_job_goes_to_the_cluster_that_starts_it_first(
    site: Site,
    command: str,
    names: str,
    starts: dict[str, int],
    chosen: str,
    said: list[str],
) -> None:
    """`-M` and `--clusters` of several: where `--test-only` says the earliest start."""
    site.starts.update(starts)
    options = Options(command)
    pairs, _ = options.split_words(["-M", names])
    options.apply_all(pairs, COMMAND_LINE)
    options.finish()
    name = ""
    with contextlib.suppress(SystemExit):
        name = submission.choose_cluster(options, read_conf(command))["ClusterName"]
    printed = site.printed(0)
    assert name == chosen
    assert printed.stderr == "".join(f"{command}: error: {line}\n" for line in said)


def test_shares_are_shown_for_each_cluster(site: Site) -> None:
    """With the name above them."""
    printed = site.run("sshare", "-M", "c2", "-a", "-P", "-o", "Account,Cluster")
    assert printed == Printed("CLUSTER: c2\nAccount|Cluster\n", "", 0)


def test_the_cluster_of_an_allocation_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    """Steps of `salloc -M` read where its controller is."""
    conf = {"ClusterName": "c1", "SlurmctldPort": "6817", "SlurmctldHost": "a"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_WORKING_CLUSTER", "c2:fd00::1:6818:11776")
        conf_there = clusters.of_allocation("srun", conf)
        keys = ("ClusterName", "SlurmctldHost", "SlurmctldPort")
        assert [conf_there[key] for key in keys] == ["c2", "fd00::1", "6818"]
        patch.setenv("SLURM_WORKING_CLUSTER", "c1:h:6817:0")
        assert clusters.of_allocation("srun", conf) is conf
        patch.setenv("SLURM_WORKING_CLUSTER", "c2:h:port:0")
        with pytest.raises(SystemExit):
            clusters.of_allocation("srun", conf)
    assert "NAME:HOST:PORT:VERSION is allowed" in capfd.readouterr().err

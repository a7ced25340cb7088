"""What has no effect is named, what would be a broken promise is refused, the rest is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyslurm_ng
from pyslurm_ng.conf.check import check, check_warnings
from pyslurm_ng.conf.effects.effect import (
    ACCEPTED,
    DIFFERS,
    SAME,
    SECTIONS,
    effect_of,
    plain_word,
    word_effect,
    words_of,
)
from pyslurm_ng.conf.effects.key_tables import Keys, Words
from pyslurm_ng.conf.effects.words import DBD_WORDS, GRES_WORDS, SLURM_WORDS
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurmdbd_conf import parse_slurmdbd_conf
from pyslurm_ng.conf.tables import keys
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.tables.options import OPTIONS
from tests.model.clusters import FOUR_NODES, conf_of

SOURCE = Path(pyslurm_ng.__file__).parent
BASE = "ClusterName=t\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"


def warnings_of(text: str) -> list[str]:
    """Return what is said of a cluster with some more lines, without its file's name."""
    return [line.partition(": ")[2] for line in conf_of(FOUR_NODES + text).warnings]


def refusals_of(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "slurm.conf"
    path.write_text(BASE + text)
    return [line.removeprefix(f"{tmp_path}/") for line in check(str(path))]


@pytest.mark.parametrize("section", keys.SECTIONS)
def test_every_key_named_exists_and_is_named_once(section: str) -> None:
    """A key that cannot be written, or has two effects, is a mistake in the table."""
    table: Keys = SECTIONS[section]
    known = {key.name for key in keys.SECTIONS[section]}
    lists = [set(table.same), set(table.differs), set(table.accepted), set(table.refused)]
    assert set().union(*lists) <= known
    assert sum(map(len, lists)) == len(set().union(*lists))


@pytest.mark.parametrize(
    ("section", "table"),
    [("slurm.conf", SLURM_WORDS), ("slurmdbd.conf", DBD_WORDS), ("gres.conf", GRES_WORDS)],
)
def test_every_word_named_exists_and_is_named_once(section: str, table: dict[str, Words]) -> None:
    by_name = {key.name: key for key in keys.SECTIONS[section]}
    for name, words in table.items():
        key = by_name[name]
        known = {plain_word(key, word) for word in words_of(section, key)}
        lists = [set(words.same), set(words.differs), set(words.accepted), set(words.refused)]
        assert set().union(*lists) <= known, name
        assert sum(map(len, lists)) == len(set().union(*lists)), name


@pytest.mark.parametrize(
    ("section", "table"),
    [("slurm.conf", SLURM_WORDS), ("slurmdbd.conf", DBD_WORDS), ("gres.conf", GRES_WORDS)],
)
def test_a_key_with_a_word_that_works_is_not_without_effect(
    section: str, table: dict[str, Words]
) -> None:
    """The compatibility table said so of LaunchParameters, and --check of the file did not."""
    working = [key for key, words in table.items() if words.same or words.differs]
    assert [key for key in working if effect_of(section, key).kind == ACCEPTED] == []


def test_a_word_without_effect_is_named_with_its_place_and_the_reason() -> None:
    """And those that work are not."""
    conf = conf_of(FOUR_NODES + "SchedulerParameters=bf_interval=60,bf_max_job_user=5,bf_smart\n")
    (line,) = conf.warnings
    position, _, text = line.partition(": ")
    assert position == f"slurm.conf:{len(FOUR_NODES.splitlines()) + 1}"
    assert text.startswith("SchedulerParameters=bf_interval has no effect in pyslurm-ng: a pass")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("LaunchParameters=enable_nss_slurm", "LaunchParameters=enable_nss_slurm has no effect"),
        ("SlurmctldParameters=cloud_dns", "SlurmctldParameters=cloud_dns has no effect"),
        ("SlurmdParameters=l3cache_as_socket", "SlurmdParameters=l3cache_as_socket has no effect"),
        ("SlurmdParameters=conmgr_threads=4", "SlurmdParameters=conmgr_threads has no effect"),
        ("TreeWidth=16", "TreeWidth has no effect"),
        ("DebugFlags=Backfill,Gres", "DebugFlags=Gres has no effect"),
        ("SlurmctldHost=standby", "SlurmctldHost=standby has no effect"),
        ("JobCompParams=send_script", "JobCompParams=send_script has no effect"),
    ],
)
def test_what_has_no_effect_is_named(line: str, said: str) -> None:
    (warning,) = warnings_of(line + "\n")
    assert warning.startswith(f"{said} in pyslurm-ng")


@pytest.mark.parametrize(
    "line",
    [
        "PriorityType=priority/multifactor\nPriorityWeightTRES=CPU=10\nPrologFlags=Alloc",
        "TrackWCKey=no",
        "SwitchType=switch/none",
        "AuthAltTypes=none",
        "SuspendTime=INFINITE",
    ],
)
def test_what_works_or_asks_for_nothing_is_not_named(line: str) -> None:
    assert warnings_of(line + "\n") == []


def test_a_key_of_many_lines_is_named_once() -> None:
    """Ten thousand nodes must not bring ten thousand lines at start."""
    more = "".join(f"NodeName=x{n} Parameters=l3cache_as_socket\n" for n in range(3))
    assert len(warnings_of(more)) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("JobCompType=jobcomp/kafka", "jobcomp/kafka is refused: completed jobs would not be told"),
        ("JobCompType=jobcomp/lua", "jobcomp/lua is refused: completed jobs would not be told of"),
        ("JobCompType=jobcomp/mysql", "jobcomp/mysql is refused: no table of completed jobs"),
        ("MpiDefault=cray_shasta", "cray_shasta is refused: the ranks would not know each other"),
        ("TLSType=tls/s2n", "tls/s2n is refused: connections are signed, not encrypted"),
        ("VSizeFactor=110", "110 is refused: virtual memory would not be limited"),
        (
            "LaunchParameters=srun_exclusive_allocation",
            "srun_exclusive_allocation is refused: the jobs of srun would share nodes",
        ),
    ],
)
def test_a_promise_that_is_not_kept_is_refused(tmp_path: Path, line: str, said: str) -> None:
    """At start and by --check, with the line; a simulation of the same file may go on."""
    (refusal,) = refusals_of(tmp_path, line + "\n")
    assert refusal.startswith(f"slurm.conf:5: {line.partition('=')[0]}: {said}")
    conf_of(FOUR_NODES + line + "\n")


@pytest.mark.parametrize(
    "line",
    [
        "MCSPlugin=mcs/none",
        "MpiDefault=none",
        "MpiDefault=pmi2",
        "MpiDefault=pmix_v4",
        "UsePAM=no",
        "UsePAM=yes",
        "VSizeFactor=0",
    ],
)
def test_what_promises_nothing_is_allowed(tmp_path: Path, line: str) -> None:
    assert refusals_of(tmp_path, line + "\n") == []


def test_select_linear_gives_whole_nodes() -> None:
    """It must not share them as cons_tres would."""
    conf = conf_of(FOUR_NODES + "SelectType=select/linear\n")
    assert {partition.exclusive for partition in conf.partitions} == {"NODE"}
    shared = "SelectType=select/linear\nPartitionName=shared Nodes=ALL OverSubscribe=FORCE:2\n"
    conf = conf_of(FOUR_NODES + shared)
    assert {partition.over_subscribe for partition in conf.partitions} == {"NO"}
    assert any("OverSubscribe=FORCE:2 means NO" in line for line in conf.warnings)


def test_the_schedulers_log_has_one_level() -> None:
    """Files of sites give it 3 as they give SlurmctldDebug a number."""
    conf = conf_of(FOUR_NODES + "SlurmSchedLogFile=/tmp/s\nSlurmSchedLogLevel=3\n")
    assert conf.slurm_sched_log_level == 1
    assert any("SlurmSchedLogLevel=3 no longer exists and means" in line for line in conf.warnings)


def test_files_beside_slurm_conf_name_what_has_no_effect(tmp_path: Path) -> None:
    """Or that they are not read at all."""
    (tmp_path / "slurm.conf").write_text(BASE + "GresTypes=gpu\n")
    (tmp_path / "cgroup.conf").write_text("ConstrainCores=yes\nEnableExtraControllers=pids\n")
    (tmp_path / "gres.conf").write_text("Name=gpu Count=1 Flags=CountOnly,env_uuid\n")
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n1 LinkSpeed=4\n")
    (tmp_path / "helpers.conf").write_text("")
    warnings = [
        line.removeprefix(f"{tmp_path}/") for line in check_warnings(str(tmp_path / "slurm.conf"))
    ]
    assert warnings[:1] == [
        "cgroup.conf:2: EnableExtraControllers has no effect in pyslurm-ng yet",
    ]
    assert "helpers.conf: is not read by pyslurm-ng: NodeFeaturesPlugins has no effect" in warnings


def test_slurmdbd_conf_names_and_refuses() -> None:
    conf = parse_slurmdbd_conf("StorageType=accounting_storage/sqlite\nPluginDir=/opt\n")
    assert conf.warnings == (
        "slurmdbd.conf:2: PluginDir has no effect in pyslurm-ng: everything is built in",
    )
    with pytest.raises(ConfErrors, match="TLSType: tls/s2n is refused: connections are signed"):
        parse_slurmdbd_conf("StorageType=accounting_storage/sqlite\nTLSType=tls/s2n\n")


# Rows of "same" are used ----------------------------------------------------------------------

_READ_AS_TEXT = "cli data_parser wire sim dbd d/container".split()
"""Where commands and slurmdbd ask slurm.conf for keys by name, through `conf.quick`, and where
tasks in containers ask oci.conf."""
_BY_NAME = ("slurm.conf", "slurmdbd.conf", "oci.conf")
_WHOLE = ("job_container.conf", "namespace.yaml")
"""Files that `conf.namespaces` makes one object of."""
_USED_WHILE_READING = frozenset(
    # Of what other values and whole objects are made before anybody else sees them.
    """
    AccountingStorageTRES GresTypes SlurmdPort SelectType TopologyPlugin PrEpPlugins PreemptType
    NodeName NodeHostname NodeAddr Boards CoresPerSocket CPUs RealMemory MemSpecLimit TmpDisk
    SocketsPerBoard PartitionName ExclusiveUser ExclusiveTopo NodeSet Feature Nodes
    EnergyIPMIPowerSensors
    AutoDetect DbdHost CliFilterPlugins Name Type SwitchName BlockName RingName
    """.split()
)


def _attributes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr


@pytest.fixture(scope="module")
def attributes() -> set[str]:
    """Return every attribute that the code outside of conf asks for."""
    paths = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "conf"]
    return {name for path in paths for name in _attributes(path)}


@pytest.fixture(scope="module")
def texts() -> str:
    """Return the code that asks for keys by their names."""
    parts = [path for part in _READ_AS_TEXT for path in (SOURCE / part).rglob("*.py")]
    return "".join(path.read_text() for path in parts)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param((section, key), id=f"{section}:{key.name}")
        for section, table in keys.SECTIONS.items()
        for key in table
        if effect_of(section, key.name).kind in (SAME, DIFFERS)
        and key.name not in _USED_WHILE_READING
        and section not in _WHOLE
    ],
)
def test_a_key_that_works_is_asked_for(
    key: tuple[str, Key], attributes: set[str], texts: str
) -> None:
    """One that nothing outside of reading and showing asks for cannot have an effect."""
    name, attribute = key[1].name, key[1].attribute
    by_name = key[0] in _BY_NAME and f'"{name}"' in texts
    assert attribute in attributes or by_name or name == "CredType" or name == "PlugStackConfig"


def test_every_scheduler_parameter_that_works_is_asked_for() -> None:
    """A word that is not named as without effect must be in the code that decides."""
    paths = (path for part in ("cli", "ctld", "sched") for path in (SOURCE / part).rglob("*.py"))
    text = "".join(path.read_text() for path in paths)
    key = next(key for key in keys.PARAMETERS if key.name == "SchedulerParameters")
    for name, *_ in OPTIONS["SchedulerParameters"]:
        is_same = word_effect("slurm.conf", key, name).kind == SAME
        assert not is_same or f'"{name.lower()}"' in text, name

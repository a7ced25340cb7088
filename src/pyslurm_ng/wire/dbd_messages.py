"""Messages of slurmdbd: the controller's stream of journal batches, and the accounting commands.

Three conversations use them:

* slurmctld registers its cluster, learns its cursor and sends journal batches, each acknowledged
  when rows and cursor are committed together (`RegisterCluster`, `JournalBatch`);
* slurmctld keeps one `AwaitAssociations` outstanding: it is answered when something changes after
  the version that it names, with only the changes, or with everything if the store is a new one;
* commands read (`ListJobRecords`, `ListEntities`) and change (`ChangeEntities`) accounting.

Times are microseconds since the epoch where the name ends in `_us`.
"""

from typing import Annotated, Literal

import msgspec

from pyslurm_ng.base.numbers import RPC_VERSION
from pyslurm_ng.model import bounds as b
from pyslurm_ng.model.assoc import Association, OwnerUsage, Qos, UserRecord
from pyslurm_ng.wire.table import RequestId, message, reply

Name = b.LabelText
Text = b.LongText
Names = Annotated[list[Name], msgspec.Meta(max_length=4096)]
FewNames = Annotated[list[Name], msgspec.Meta(max_length=200)]
"""Each word costs the database a comparison for each row."""
ManyNames = Annotated[list[Name], msgspec.Meta(max_length=10_000)]
NodeNames = Annotated[list[Name], msgspec.Meta(max_length=100_000)]
SELECTORS = 10_000
"""Jobs that one sacct may name."""
Count = b.Amount

# slurmctld -> slurmdbd --------------------------------------------------------------------


@message(kind="RegisterCluster", roles="slurmctld|admin", rate="daemon", max_bytes=65536)
class RegisterCluster(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A controller registers its cluster; unknown clusters are created.

    `journal_id` names the journal the sequences belong to: a controller started with `-c` has a
    new one, and the cursor restarts at 0 for it. `tres` is AccountingStorageTRES, `store_flags`
    AccountingStoreFlags (job_script and job_env: keep the texts).
    """

    cluster: b.WordText
    control_host: Name
    control_port: b.Number16
    journal_id: b.WordText
    rpc_version: Count = RPC_VERSION
    tres: Annotated[list[Name], msgspec.Meta(max_length=1000)] = []
    store_flags: Annotated[list[Name], msgspec.Meta(max_length=100)] = []


@message(kind="RegisterExternal", roles="slurmctld|admin", rate="daemon", max_bytes=4096)
class RegisterExternal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A controller whose cluster another slurmdbd accounts says where it is, for -M."""

    cluster: b.WordText
    control_host: Name
    control_port: b.Number16
    rpc_version: Count = RPC_VERSION


@reply("ClusterRegistered")
class ClusterRegistered(msgspec.Struct, frozen=True):
    """The cursor: batches after `sequence` of journal `journal_id` are wanted next.

    `checksum` belongs to the record `sequence` ("": not known). If the controller's record has
    another checksum, or there is no such record, it has lost records that slurmdbd stored. `epoch`
    is the newest that slurmdbd has seen of the cluster in any journal, `newest_job_id` the highest
    job id among the newest jobs; 0: none.
    """

    cluster_id: int
    journal_id: str
    epoch: int
    sequence: int
    store_id: str
    version: int
    checksum: str = ""
    newest_job_id: int = 0


MAX_BATCH_BYTES = 32 << 20
"""Twice what the controller sends of one record (ctld.followers.accounting_records)."""
Payload = Annotated[bytes, msgspec.Meta(max_length=MAX_BATCH_BYTES)]


class JournalFrame(msgspec.Struct, frozen=True, array_like=True):
    """One journal batch exactly as the journal holds it.

    `checksum` is the record's in hexadecimal. If the record is too large for a message, `fault`
    says what the controller has left out.
    """

    epoch: Count
    sequence: Count
    payload: Payload
    checksum: Annotated[str, msgspec.Meta(max_length=16)] = ""
    fault: Annotated[str, msgspec.Meta(max_length=1000)] = ""


@message(kind="JournalBatch", roles="slurmctld|admin", rate="daemon", max_bytes=MAX_BATCH_BYTES)
class JournalBatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The journal frames that follow `after`; repeating old ones does no harm.

    An `after` beyond the cursor is refused: the controller registers again and learns it.
    """

    cluster: b.WordText
    journal_id: b.WordText
    after: Count
    frames: Annotated[list[JournalFrame], msgspec.Meta(max_length=100_000)]


@reply("BatchAck")
class BatchAck(msgspec.Struct, frozen=True):
    """Rows and cursor up to `sequence` are committed; the journal may forget them."""

    epoch: int
    sequence: int


JobIds = Annotated[list[b.JobIdField], msgspec.Meta(max_length=2_000_000)]


@message(kind="CompareJobs", roles="slurmctld|admin", rate="daemon", max_bytes=16 << 20)
class CompareJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A controller that has lost its newest records asks what became of its jobs."""

    cluster: b.WordText
    jobs: JobIds


class ComparedJob(msgspec.Struct, array_like=True, frozen=True):
    """What slurmdbd knows of a job: `state` as a word, `end_us` 0 if it has not ended."""

    job_id: int
    attempt: int
    state: str
    exit_code: int
    start_us: int
    end_us: int


@reply("JobsCompared")
class JobsCompared(msgspec.Struct, frozen=True):
    """The jobs asked for that slurmdbd knows, and the open ones that were not asked for."""

    jobs: list[ComparedJob]
    unknown: list[int]


@message(kind="RewindJournal", roles="slurmctld|admin", rate="daemon", max_bytes=16 << 20)
class RewindJournal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A controller has lost what slurmdbd stored after `sequence`: what follows is new again.

    Open jobs that are not in `jobs` end here, because the controller does not know them.
    """

    cluster: b.WordText
    journal_id: b.WordText
    epoch: Count
    sequence: Count
    checksum: Annotated[str, msgspec.Meta(max_length=16)]
    jobs: JobIds


@message(kind="ReadUsage", roles="slurmctld|admin", rate="daemon", max_bytes=4096)
class ReadUsage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A controller with new state asks what was used between two times, as it counts at the end.

    Usage fades with `half_life_s`; 0: it lasts.
    """

    cluster: b.WordText
    since_us: Count
    until_us: Count
    half_life_s: Count


@reply("StoredUsage")
class StoredUsage(msgspec.Struct, frozen=True):
    """What associations, with all that are below them, and QOS have used; without wall time."""

    owners: list[OwnerUsage]


@message(kind="AwaitAssociations", roles="slurmctld|admin", rate="daemon", max_bytes=4096)
class AwaitAssociations(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Ask for what changed after `version`; answered at once, or when a change comes, or empty
    after `wait_s`. `durable` is the newest record that is on the controller's disk."""

    cluster: b.WordText
    store_id: Name
    version: Count
    wait_s: Annotated[int, msgspec.Meta(ge=0, le=600)] = 60
    durable: Count = 0


class LicenseServer(msgspec.Struct, array_like=True, frozen=True):
    """The total of licence NAME@SERVER, and its use as an administrator last set it."""

    name: str
    total: int
    consumed: int
    updated_us: int


@reply("AssociationUpdate")
class AssociationUpdate(msgspec.Struct, frozen=True):
    """What the events `AssocChanged` and `QosChanged` need.

    With `is_full` (a first contact, or another store) records that are not named are removed.
    Otherwise it holds only changes after the version asked with. `version` is the one to ask with
    next. Limits and QOS lists are the effective ones, with inherited values filled in. `licenses`
    has all licences NAME@SERVER that the cluster may use, `license_servers` what is known of them.
    With `journal_wanted` a query waits for the newest records: they are to come at once.
    """

    store_id: str
    version: int
    is_full: bool
    associations: list[Association]
    associations_removed: list[int]
    qos: list[Qos]
    qos_removed: list[str]
    users: list[UserRecord]
    users_removed: list[str]
    tres: list[str]
    licenses: list[tuple[str, int]] | None = None  # None: as they were
    license_servers: list[LicenseServer] = []
    journal_wanted: bool = False


# sacct ------------------------------------------------------------------------------------


class JobSelector(msgspec.Struct, frozen=True, array_like=True):
    """One word of `sacct -j`: a job, an array task or a het component, perhaps one step of it.

    -1 stands for "not given". `step_id` uses the ids of `dbd.schema` (batch, extern,
    interactive are negative from -2 on). A `sluid` names one record, with `job_id` 0.
    """

    job_id: b.Number32OrNone
    array_task_id: b.Number32OrNone = -1
    het_job_offset: b.Number32OrNone = -1
    step_id: Annotated[int, msgspec.Meta(ge=-(2**32), le=2**32)] = -1
    sluid: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0


@message(kind="ListJobRecords", roles="user", max_bytes=4 << 20)
class ListJobRecords(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What `sacct` selects; answered in parts. Empty lists do not restrict.

    `columns` and `step_columns` name columns of the jobs and steps tables. Without `states` a job
    is selected if it was known between `start_us` and `end_us` (0: now); with them, if it was in
    one of these states then.
    """

    columns: FewNames
    step_columns: FewNames = []
    clusters: ManyNames = []
    jobs: Annotated[list[JobSelector], msgspec.Meta(max_length=SELECTORS)] = []
    start_us: Count = 0
    end_us: Count = 0
    states: FewNames = []
    uids: Annotated[list[b.UserIdField], msgspec.Meta(max_length=10_000)] = []
    gids: Annotated[list[b.UserIdField], msgspec.Meta(max_length=10_000)] = []
    accounts: ManyNames = []
    association_ids: Annotated[list[Count], msgspec.Meta(max_length=10_000)] = []
    partitions: FewNames = []
    qos: ManyNames = []
    names: ManyNames = []
    nodes: NodeNames = []
    wckeys: ManyNames = []
    reasons: FewNames = []
    constraints: FewNames = []
    time_limit_min: b.Number32OrNone = -1
    time_limit_max: b.Number32OrNone = -1
    nodes_min: b.Number32OrNone = -1
    nodes_max: b.Number32OrNone = -1
    cpus_min: b.Number32OrNone = -1
    cpus_max: b.Number32OrNone = -1
    flags: FewNames = []
    duplicates: bool = False
    with_steps: bool = True
    whole_het_job: bool = False
    after: Annotated[list[b.Number64], msgspec.Meta(max_length=16)] = []
    only_named_components: bool = False


@reply("JobRecords")
class JobRecords(msgspec.Struct, frozen=True):
    """One part of the answer to `ListJobRecords`, in the bulk format of `wire.query_messages`.

    Jobs are in print order. A step record begins with the position of its job in this part's
    `records`. `tres` and `qos` give the ids of the names. `is_behind`: what the controller recorded
    last may be missing.
    """

    now_us: int
    cluster: str
    fields: list[str]
    records: bytes
    step_fields: list[str]
    step_records: bytes
    tres: dict[str, int]
    qos: dict[str, int]
    is_behind: bool = False


@message(kind="GetJobScript", roles="user", max_bytes=4096)
class GetJobScript(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacct -B` and `--env-vars`: the stored script or environment of one job.

    A `sluid` other than 0 names the record, whatever `job_id` says.
    """

    cluster: b.WordText
    job_id: Count
    want_environment: bool = False
    sluid: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0


@reply("JobScript")
class JobScript(msgspec.Struct, frozen=True):
    """The text; empty when the job was not a batch job or texts are not stored."""

    text: str
    is_known: bool = True
    """False if the user may see no such job."""


# sacctmgr ---------------------------------------------------------------------------------


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    """`key op value` of the sacctmgr grammar, key canonical; op is `=`, `+=` or `-=`."""

    key: Name
    op: Literal["=", "+=", "-="]
    value: Text


Assignments = Annotated[list[Assignment], msgspec.Meta(max_length=1000)]


@message(kind="ListEntities", roles="user", max_bytes=1 << 20)
class ListEntities(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr list ENTITY where ...` with its flag words (withassoc, tree ...)."""

    entity: Name
    where: Assignments = []
    flags: Names = []


@reply("EntityRows")
class EntityRows(msgspec.Struct, frozen=True):
    """Rows as positional arrays in the order of `fields`; values are texts ready to print,
    numbers, lists of names, or nil for "not set"."""

    now_us: int
    fields: list[str]
    records: bytes
    extras: dict[str, str]


@message(kind="ChangeEntities", roles="user", rate="change", max_bytes=1 << 20)
class ChangeEntities(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr add|modify|delete ENTITY`.

    Without `commit` everything is done and rolled back: the reply says what would happen, for the
    y/N question."""

    verb: Literal["add", "modify", "delete"]
    entity: Name
    where: Assignments = []
    set: Assignments = []
    commit: bool = False
    request_id: RequestId = b"\0" * 16


class FileLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of a flat file: `KIND - 'NAME':KEY=VALUE...`, and its number in the file."""

    number: Count
    kind: Literal["QOS", "Cluster", "Parent", "Account", "User"]
    name: Name
    settings: Assignments = []


@message(kind="LoadFile", roles="user", rate="change", max_bytes=32 << 20)
class LoadFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr load`: bring a cluster's accounts and users to what a flat file says.

    `cluster` replaces the name in the file. With `clean` what the file does not name is removed.
    `commit` is as in `ChangeEntities`.
    """

    lines: Annotated[list[FileLine], msgspec.Meta(max_length=400_000)]
    cluster: Name = ""
    clean: bool = False
    commit: bool = False
    request_id: RequestId = b"\0" * 16


@reply("ChangeResult")
class ChangeResult(msgspec.Struct, frozen=True):
    """What to print and how to end. `changed` of 0 means there is nothing to confirm."""

    lines: list[str]
    error_lines: list[str]
    changed: int
    exit_code: int


@message(kind="ArchiveDump", roles="user", rate="change", max_bytes=65536)
class ArchiveDump(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr archive dump`: purge now by slurmdbd.conf, but for what is given here.

    `purge` has Purge keys, `archived` the kinds that are to be archived (jobs, steps ...).
    Answered by a `ChangeResult`.
    """

    purge: Annotated[list[Assignment], msgspec.Meta(max_length=16)] = []
    archived: Annotated[list[Name], msgspec.Meta(max_length=16)] = []
    directory: b.PathText = ""
    script: b.PathText = ""


@message(kind="ArchiveLoad", roles="user", rate="change", max_bytes=65536)
class ArchiveLoad(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr archive load`: take back a file on slurmdbd's host.

    Answered by a `ChangeResult`.
    """

    path: b.PathText


@message(kind="ShowDbdConfig", roles="user", max_bytes=1024)
class ShowDbdConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr show configuration`, the daemon's part."""


@reply("DbdConfig")
class DbdConfig(msgspec.Struct, frozen=True):
    """Key and value pairs in print order."""

    pairs: list[tuple[str, str]]


@message(kind="ShowDbdStats", roles="user", max_bytes=1024)
class ShowDbdStats(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sacctmgr show stats`: requests counted per kind and per user since the start."""

    clear: bool = False


@reply("DbdStats")
class DbdStats(msgspec.Struct, frozen=True):
    """Times in microseconds; rows are (name or uid, count, total_us).

    Rows of `roll_ups` are (cycle, hour, day or month, count, time of the last one, how long it
    took, the longest, the sum).
    """

    start_us: int
    now_us: int
    by_kind: list[tuple[str, int, int]]
    by_uid: list[tuple[int, int, int]]
    records_ingested: int
    database_retries: int
    faults: dict[str, int] = {}
    roll_ups: list[tuple[str, int, int, int, int, int]] = []

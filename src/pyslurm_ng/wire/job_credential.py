"""Job credentials, and what step managers know and tell; `wire.node_messages` says how they travel.

They come signed or from node daemons that were admitted, so their fields have no bounds.
"""

import msgspec
from msgspec import Struct

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model.accepted import AcceptedDecoder
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import JobRequest, NodeAlloc, Step, Usage
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition

CREDENTIAL_LIFE_US = 120_000_000


class HetComponent(Struct, array_like=True, frozen=True, gc=False):
    """One component of a heterogeneous job, for the environment of its leader's script."""

    job_id: int
    job_name: str
    request: JobRequest
    nodes: tuple[str, ...]
    allocs: tuple[NodeAlloc, ...]
    partition: str = ""
    account: str = ""
    qos: str = ""


class ManagedNodes(Struct, array_like=True, frozen=True, gc=False):
    """What a job's step manager must know of the job's nodes; in node order, as in its credential.

    `specs` have the places of devices. `partition` has the default sizes of memory.
    """

    specs: tuple[NodeSpec, ...]
    addresses: tuple[tuple[str, int], ...]
    partition: Partition | None
    next_step_id: int = 0


class JobCredential(Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What the controller allows to be started, and all that a node needs to know of the job.

    `nodes` and `allocs` are the job's, in node order, position by position; the `step_*` fields
    are those of the step: `step_tasks` holds the global task ids on each of its nodes. For a batch
    script the step is the batch host with task 0.
    """

    cluster: str
    epoch: int
    job_id: int
    attempt: int
    uid: int
    gid: int
    user_name: str
    group_name: str
    request: JobRequest
    nodes: tuple[str, ...]
    allocs: tuple[NodeAlloc, ...]
    step_id: int = STEP_BATCH
    step_nodes: tuple[str, ...] = ()
    step_allocs: tuple[NodeAlloc, ...] = ()
    step_tasks: tuple[tuple[int, ...], ...] = ()
    step_name: str = ""
    step_flags: int = 0  # model.job.STEP_*
    step_cpus_per_task: int = 0  # as asked; 0: not asked
    step_distribution: str = ""
    step_gpus_per_task: int = 0
    step_tres_bind: str = ""
    step_ports: tuple[int, ...] = ()
    gids: tuple[int, ...] = ()  # supplementary groups; empty: the node looks them up
    partition: str = ""
    account: str = ""
    qos: str = ""
    job_name: str = ""
    reservation: str = ""
    licenses: str = ""
    wckey: str = ""
    start_us: int = 0
    end_us: int = 0  # planned end; 0 for no limit
    array_job_id: int = 0
    array_task_id: int = NO_VAL
    array_count: int = 0
    array_min: int = 0
    array_max: int = 0
    array_step: int = 0
    het_job_id: int = 0
    het_offset: int = 0
    dependency: str = ""
    oversubscribe: str = "NO"  # as SLURM_JOB_OVERSUBSCRIBE says it
    exclusive: str = "NO"  # NO, NODE, USER, MCS, TOPO
    batch_host: str = ""
    node_addresses: tuple[str, ...] = ()  # topology paths `spine.leaf.n1`, parallel to `nodes`
    address_pattern: str = ""
    script_digest: bytes = b""  # BLAKE2b of the script and environment in LaunchBatch
    environment_digest: bytes = b""
    issued_us: int = 0
    expires_us: int = 0
    nonce: bytes = b""
    sluid: str = ""
    het_components: tuple[HetComponent, ...] = ()  # for the script of a heterogeneous job
    bind_kind: str = ""  # CpuBind of the nodes or the partition
    issuer: str = ""  # the node whose step manager signed it; "" for slurmctld
    manager_address: tuple[str, int] = ("", 0)  # of the batch host, if it manages the job's steps
    has_extern: bool = False  # each of `nodes` has an extern step
    managed: ManagedNodes | None = None  # for that node alone
    has_script: bool = False  # the job is a batch job


_credential_encoder = msgspec.msgpack.Encoder()
_credential_decoder: AcceptedDecoder[JobCredential] = AcceptedDecoder(JobCredential)


def encode_credential(credential: JobCredential) -> bytes:
    """Return the payload to sign."""
    return _credential_encoder.encode(credential)


def decode_credential(payload: bytes) -> JobCredential:
    """Return what a verified payload says.

    Raises:
        msgspec.DecodeError: it was signed by another version.
    """
    return _credential_decoder.decode(payload)


class StepNews(Struct, array_like=True, frozen=True, gc=False):
    """A step that was made (`step`), or that is over on `node_ids`; it is over where none is left.

    The other fields are those of the events StepNodesDone and StepEnded.
    """

    step_id: int
    step: Step | None = None
    node_ids: tuple[int, ...] = ()
    state: int = 0
    exit_code: int = 0
    usage: Usage | None = None
    end_us: int = 0
    cancelled_by: int = NO_VAL


_news_encoder = msgspec.msgpack.Encoder()
_news_decoder: AcceptedDecoder[list[StepNews]] = AcceptedDecoder(list[StepNews])


def encode_news(news: list[StepNews]) -> bytes:
    """Return the `news` of a ManagedSteps."""
    return _news_encoder.encode(news)


def decode_news(news: bytes) -> list[StepNews]:
    """Return what a ManagedSteps says.

    Raises:
        msgspec.DecodeError: it is malformed.
    """
    return _news_decoder.decode(news)

"""The cluster as a value, with the indexes that follow from it, its invariants and its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Set as AbstractSet

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .accepted import AcceptedDecoder
from .assoc import Association, AssocIndex, OwnerUsage, Qos, UserRecord
from .buffer import Buffer, BufferState
from .crontab import Crontab
from .duty import Duty
from .job import Job, is_completing
from .job_counts import JobCounts
from .job_index import JobIndex
from .kept_request import whole_request
from .license_server import ServerUse, is_remote
from .node import Node, effective_cpus
from .node_index import NodeIndex
from .partition import Partition
from .replies import Replies
from .reservation import Reservation
from .shared_values import SharedValues
from .states import NodeFlag, NodeState
from .topology import Topology
from .trigger import Trigger

# Bits of Cluster.programs: what the controller itself runs for every job.
RUNS_PROLOG = 1  # PrologSlurmctld
RUNS_EPILOG = 2  # EpilogSlurmctld
RUNS_RESUME = 4  # ResumeProgram, for jobs whose nodes sleep


class ClusterImage(Struct, array_like=True, gc=False):
    """The stored form of a Cluster: every record, no index."""

    format: int
    cluster_name: str
    epoch: int
    time_us: int
    next_job_id: int
    first_job_id: int
    max_job_id: int
    next_duty_id: int
    conf_hash: str
    assoc_version: int
    jobs: list[msgspec.Raw]  # of Job; read one by one
    nodes: list[Node | None]
    partitions: list[Partition]
    assocs: list[Association]
    qos: list[Qos]
    users: list[UserRecord]
    duties: list[Duty]
    reservations: list[Reservation]
    licenses: list[tuple[str, int]]
    replies: list[tuple[int, bytes, int, bytes]]
    sequence: int = 0
    last_reservation_id: int = 0
    topologies: tuple[Topology, ...] = ()
    programs: int = 0
    prologs: tuple[int, ...] = ()
    epilogs: tuple[int, ...] = ()
    usage: tuple[OwnerUsage, ...] = ()
    usage_until_us: int = 0
    usage_since_us: int = 0
    license_servers: tuple[ServerUse, ...] = ()
    ids_seen_below: int = 0
    triggers: tuple[Trigger, ...] = ()
    last_trigger_id: int = 0
    crontabs: tuple[Crontab, ...] = ()
    buffers: tuple[Buffer, ...] = ()


IMAGE_FORMAT = 1
_encoder = msgspec.msgpack.Encoder()
_decoder: AcceptedDecoder[ClusterImage] = AcceptedDecoder(ClusterImage)
_job_decoder: AcceptedDecoder[Job] = AcceptedDecoder(Job)


class Cluster:
    """The whole cluster. Only `apply.apply` changes it."""

    def __init__(self) -> None:
        self.cluster_name = ""
        self.epoch = 0
        self.sequence = 0
        self.time_us = 0
        self.next_job_id = 1
        self.ids_seen_below = 0  # see JobIdsSeen
        self.first_job_id = 1
        self.max_job_id = 67043328
        self.next_duty_id = 1
        self.conf_hash = ""
        self.assoc_version = 0
        self.last_reservation_id = 0
        self.jobs: dict[int, Job] = {}
        self.nodes: list[Node | None] = []
        self.partitions: dict[str, Partition] = {}
        self.assocs: dict[int, Association] = {}
        self.qos: dict[str, Qos] = {}
        self.users: dict[str, UserRecord] = {}
        self.duties: dict[int, dict[int, Duty]] = {}
        self.reservations: dict[str, Reservation] = {}
        self.licenses: dict[str, int] = {}
        self.license_servers: dict[str, ServerUse] = {}  # by NAME@SERVER
        self.topologies: tuple[Topology, ...] = ()
        self.replies = Replies()
        self.triggers: dict[int, Trigger] = {}
        self.last_trigger_id = 0
        self.crontabs: dict[int, Crontab] = {}  # by uid
        self.buffers: dict[int, Buffer] = {}  # by job id: burst buffers
        # What the controller owes jobs: they configure or complete until its program has ended.
        self.programs = 0  # RUNS_* bits
        self.prologs: dict[int, None] = {}
        self.epilogs: dict[int, None] = {}
        # By kind and id or name. It counts runs that ended up to `usage_until_us`; runs that ended
        # later are still among the jobs. Runs before `usage_since_us` do not count.
        self.usage: dict[tuple[str, int | str], OwnerUsage] = {}
        self.usage_until_us = 0
        self.usage_since_us = 0
        # Indexes follow from the fields above; see build_indexes.
        self.job_index = JobIndex()
        self.job_counts = JobCounts()
        self.node_index = NodeIndex(self.nodes, self.job_index.suspended)
        self.assoc_index = AssocIndex()
        self.shared = SharedValues()
        # How often nodes or partitions have changed; who keeps answers about them compares it.
        self.node_changes = 0

    # Look-ups ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """Return a node that exists."""
        node = self.nodes[node_id]
        assert node is not None, node_id
        return node

    def living_nodes(self) -> list[Node]:
        """Return all configured nodes in configuration order."""
        return [node for node in self.nodes if node is not None]

    def nodes_of(self, node_ids: Iterable[int]) -> list[Node]:
        """Return the configured nodes of some ids, in the order of the ids."""
        return [node for node_id in node_ids if (node := self.nodes[node_id]) is not None]

    def default_partition(self) -> Partition | None:
        """Return the partition of jobs that name none."""
        for partition in self.partitions.values():
            if partition.is_default:
                return partition
        return None

    def node_names(self, node_ids: tuple[int, ...] | list[int]) -> list[str]:
        """Return the names of existing nodes."""
        return [self.node(node_id).spec.name for node_id in node_ids]

    # Stored form ------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the stored form, for checkpoints and digests."""
        return _encoder.encode(
            ClusterImage(
                format=IMAGE_FORMAT,
                cluster_name=self.cluster_name,
                epoch=self.epoch,
                time_us=self.time_us,
                next_job_id=self.next_job_id,
                first_job_id=self.first_job_id,
                max_job_id=self.max_job_id,
                next_duty_id=self.next_duty_id,
                conf_hash=self.conf_hash,
                assoc_version=self.assoc_version,
                jobs=[_packed(job) for job in self.jobs.values()],
                nodes=self.nodes,
                partitions=list(self.partitions.values()),
                assocs=list(self.assocs.values()),
                qos=list(self.qos.values()),
                users=list(self.users.values()),
                duties=[duty for node in self.duties.values() for duty in node.values()],
                reservations=list(self.reservations.values()),
                licenses=list(self.licenses.items()),
                replies=list(self.replies),
                sequence=self.sequence,
                last_reservation_id=self.last_reservation_id,
                topologies=self.topologies,
                programs=self.programs,
                prologs=tuple(self.prologs),
                epilogs=tuple(self.epilogs),
                usage=tuple(self.usage.values()),
                usage_until_us=self.usage_until_us,
                usage_since_us=self.usage_since_us,
                license_servers=tuple(self.license_servers.values()),
                ids_seen_below=self.ids_seen_below,
                triggers=tuple(self.triggers.values()),
                last_trigger_id=self.last_trigger_id,
                crontabs=tuple(self.crontabs.values()),
                buffers=tuple(self.buffers.values()),
            )
        )

    @classmethod
    def from_bytes(cls, image_bytes: bytes | memoryview) -> Cluster:
        """Return the cluster that `to_bytes` stored.

        Raises:
            msgspec.ValidationError: the bytes are of another format or damaged.
        """
        image = _decoder.decode(image_bytes)
        if image.format != IMAGE_FORMAT:
            raise msgspec.ValidationError(f"checkpoint format {image.format} is not known")
        cluster = cls()
        for name in (
            "cluster_name",
            "epoch",
            "time_us",
            "next_job_id",
            "first_job_id",
            "max_job_id",
            "next_duty_id",
            "conf_hash",
            "assoc_version",
            "nodes",
            "sequence",
            "last_reservation_id",
            "topologies",
            "programs",
            "usage_until_us",
            "usage_since_us",
            "ids_seen_below",
            "last_trigger_id",
        ):
            setattr(cluster, name, getattr(image, name))
        for raw_job in image.jobs:
            # If everything were decoded at once, the values that jobs then share would leave small
            # holes in memory.
            job = _job_decoder.decode(raw_job)
            cluster.jobs[job.job_id] = job
            cluster.shared.share(job)  # beside the next one's values, not when all are there
        cluster.partitions = {partition.name: partition for partition in image.partitions}
        cluster.assocs = {assoc.assoc_id: assoc for assoc in image.assocs}
        cluster.qos = {qos.name: qos for qos in image.qos}
        cluster.users = {user.name: user for user in image.users}
        cluster.reservations = {reservation.name: reservation for reservation in image.reservations}
        cluster.licenses = dict(image.licenses)
        cluster.license_servers = {server.name: server for server in image.license_servers}
        cluster.usage = {(used.kind, used.owner): used for used in image.usage}
        cluster.triggers = {trigger.trigger_id: trigger for trigger in image.triggers}
        cluster.crontabs = {crontab.uid: crontab for crontab in image.crontabs}
        cluster.buffers = {buffer.job_id: buffer for buffer in image.buffers}
        cluster.prologs = dict.fromkeys(image.prologs)
        cluster.epilogs = dict.fromkeys(image.epilogs)
        for uid, request_id, at_us, body in image.replies:
            cluster.replies.add(uid, request_id, at_us, body)
        for duty in image.duties:
            cluster.duties.setdefault(duty.node_id, {})[duty.duty_id] = duty
        cluster.build_indexes()
        return cluster

    def digest(self) -> str:
        """Return a hash of everything stored: equal clusters have equal digests."""
        sequence, self.sequence = self.sequence, 0
        try:
            return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()
        finally:
            self.sequence = sequence

    # Indexes ----------------------------------------------------------------------------------

    def build_indexes(self) -> None:
        """Make every index again from the stored records."""
        self.job_index = index = JobIndex()
        self.job_counts = JobCounts()
        self.node_index = NodeIndex(self.nodes, index.suspended)
        self.node_index.wakes = bool(self.programs & RUNS_RESUME)
        self.node_changes += 1
        self.assoc_index.enter_all(self.assocs.values())
        self.node_index.enter_reservations(self.reservations.values())
        for job in self.jobs.values():
            self.index_job(job)
        by_end = sorted(index.ended, key=lambda job_id: (self.jobs[job_id].end_us, job_id))
        index.ended = dict.fromkeys(by_end)
        self.node_index.count_all()

    def index_job(self, job: Job) -> None:
        """Enter one job into all indexes; the caller still counts its use of nodes."""
        self.job_index.enter(job)
        self.job_counts.count_tasks(job)
        if job.job_id not in self.job_index.active:
            return
        self.job_counts.count_active(job, 1)
        uses = self.node_index.use
        node_ids = set(job.nodes_pending) if is_completing(job) else None
        for alloc in job.nodes_held:
            if node_ids is None or alloc.node_id in node_ids:
                uses[alloc.node_id].allocs[job.job_id] = alloc
                if node_ids is not None:
                    uses[alloc.node_id].completing[job.job_id] = None
        for alloc in job.nodes_leaving:
            uses[alloc.node_id].completing[job.job_id] = None

    def move_job(self, job: Job) -> None:
        """Bring the indexes up to date after a job's state or flags changed."""
        active = self.job_index.active
        was_active = job.job_id in active
        self.job_index.move(job)
        self.job_counts.count_tasks(job)
        is_active = job.job_id in active
        if was_active != is_active:
            self.job_counts.count_active(job, 1 if is_active else -1)

    def waits_for_buffer(self, job_id: int) -> bool:
        """Return whether a pending job's burst buffer is not staged in."""
        buffer = self.buffers.get(job_id)
        return buffer is not None and buffer.state != BufferState.STAGED_IN

    def licenses_left(self, name: str) -> int:
        """Return how many of a licence are free here; below 0 if too many are in use."""
        server = self.license_servers.get(name)
        missing = server.deficit if server is not None else 0
        return self.licenses.get(name, 0) - self.job_counts.licenses_used.get(name, 0) - missing


def _packed(job: Job) -> msgspec.Raw:
    """Return a job's stored form."""
    return msgspec.Raw(_encoder.encode(replace(job, request=whole_request(job.request))))


def remote_licenses(cluster: Cluster) -> list[tuple[str, int]]:
    """Return the licences of licence servers; slurm.conf does not name them."""
    return [(name, count) for name, count in cluster.licenses.items() if is_remote(name)]


def node_state(cluster: Cluster, node: Node) -> tuple[NodeState, int]:
    """Return a node's base state, with ALLOCATED and MIXED derived, and its `NodeFlag` bits."""
    use = cluster.node_index.use[node.node_id]
    flags = node.flags
    base = NodeState(node.state)
    if use.completing:
        flags |= NodeFlag.COMPLETING
    reservation = cluster.node_index.reserved.get(node.node_id)
    if reservation is not None:
        flags |= NodeFlag.RESERVED
        if "MAINT" in cluster.reservations[reservation].flags:
            flags |= NodeFlag.MAINTENANCE
    if base == NodeState.IDLE and len(use.allocs) > len(use.completing):
        full = use.cpus >= effective_cpus(node.spec)
        base = NodeState.ALLOCATED if full else NodeState.MIXED
    return base, flags


def free_job_id(cluster: Cluster, taken: AbstractSet[int] = frozenset()) -> int:
    """Return the next job id to give, skipping ids in use and those in `taken`."""
    job_id = cluster.next_job_id
    while job_id in cluster.jobs or job_id in taken:
        job_id = job_id + 1 if job_id < cluster.max_job_id else cluster.first_job_id
    return job_id


def het_components(cluster: Cluster, job: Job) -> list[Job]:
    """Return the components of a job's heterogeneous job that are known, in order; [] for none."""
    leader = job.het_job_id
    components: list[Job] = []
    if not leader:
        return components
    offset = 0
    # Their ids follow one another; the first records may have been purged.
    while True:
        other = cluster.jobs.get(leader + offset)
        if other is not None and other.het_job_id == leader:
            components.append(other)
        elif offset > job.het_offset:
            return components
        offset += 1

"""The cluster as a value, with the indexes that follow from it, its invariants and its digest."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Set as AbstractSet
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.numbers import NO_VAL

from . import gres_parts, task_ranges
from .accepted import AcceptedDecoder
from .assoc import Association, OwnerUsage, Qos, UserRecord
from .duty import Duty
from .job import NO_STEPS, Job, LostRun, NodeAlloc
from .kept_request import Known, kept_request, whole_request
from .license_server import ServerUse
from .node import Node, NodeSpec
from .partition import Partition
from .replies import Replies
from .reservation import Reservation
from .states import TERMINAL_STATES, JobFlag, JobState, NodeFlag, NodeState
from .topology import Topology

# A node with one of these takes no new jobs.
UNUSABLE_FLAGS = (
    NodeFlag.DRAIN
    | NodeFlag.FAIL
    | NodeFlag.NOT_RESPONDING
    | NodeFlag.POWERED_DOWN
    | NodeFlag.POWERING_DOWN
    | NodeFlag.REBOOT_REQUESTED
    | NodeFlag.REBOOT_ISSUED
    | NodeFlag.INVALID_REG
)


# Bits of Cluster.programs: what the controller itself runs for every job.
RUNS_PROLOG = 1  # PrologSlurmctld
RUNS_EPILOG = 2  # EpilogSlurmctld

_NOTHING: dict[str, int] = {}


class Submitter(NamedTuple):
    """For whom and where a job was submitted: what limits on the number of jobs go by."""

    uid: int
    assoc_id: int
    account: str
    qos: str
    partition: str  # several joined by commas while it waits


class NodeUse:
    """What jobs hold on one node; follows from their allocations and is never stored.

    `cores` is a bit mask of core indexes, `gres` maps "name:type" to a device mask and
    `gres_count` to the number in use. A suspended job holds memory but no cores.
    """

    __slots__ = ("allocs", "completing", "cores", "cpus", "gres", "gres_count", "mem_mib")

    def __init__(self) -> None:
        self.allocs: dict[int, NodeAlloc] = {}
        self.completing: dict[int, None] = {}
        self.cpus = 0
        self.mem_mib = 0
        self.cores = 0
        self.gres: dict[str, int] = {}
        self.gres_count: dict[str, int] = {}

    def count(self, suspended: dict[int, None]) -> None:
        """Add up `allocs` again; jobs in `suspended` hold no cores."""
        self.cpus = self.mem_mib = self.cores = 0
        self.gres = {}
        self.gres_count = {}
        for job_id, alloc in self.allocs.items():
            self.mem_mib += alloc.mem_mib
            if job_id not in suspended:
                self._add_cores(alloc)
            self._add_gres(alloc)

    def add(self, job_id: int, alloc: NodeAlloc) -> None:
        """Let a running job hold `alloc`."""
        self.allocs[job_id] = alloc
        self.mem_mib += alloc.mem_mib
        self._add_cores(alloc)
        self._add_gres(alloc)

    def _add_cores(self, alloc: NodeAlloc) -> None:
        """Count the cores of one more job; those it shares are in use already."""
        cores = int.from_bytes(alloc.cores, "little")
        shared = cores & self.cores
        self.cores |= cores
        self.cpus += alloc.cpus
        if shared:
            self.cpus -= shared.bit_count() * (alloc.cpus // cores.bit_count())

    def _add_gres(self, alloc: NodeAlloc) -> None:
        for held in alloc.gres:
            gres_parts.hold(self.gres, self.gres_count, held)


class NodeColumns:
    """Numeric columns over all nodes, index = node_id, for scheduling passes and counts."""

    __slots__ = (
        "cores_busy",
        "cpus_free",
        "gres_busy",
        "gres_changes",
        "gres_used",
        "in_use",
        "mem_free_mib",
        "usable",
    )

    def __init__(self) -> None:
        self.usable = bytearray()
        self.cpus_free = array("i")
        self.mem_free_mib = array("q")
        self.in_use = bytearray()  # 1 where any job holds anything
        self.cores_busy: list[int] = []
        # The dicts are replaced, never changed: passes may keep them.
        self.gres_busy: list[dict[str, int]] = []
        self.gres_used: list[dict[str, int]] = []
        self.gres_changes = 0  # grows with each change of these two

    def set_gres(self, node_id: int, use: NodeUse) -> None:
        """Enter which devices of a node are in use."""
        self.gres_busy[node_id] = dict(use.gres) if use.gres else _NOTHING
        self.gres_used[node_id] = dict(use.gres_count) if use.gres_count else _NOTHING
        self.gres_changes += 1


class ClusterImage(Struct, array_like=True, gc=False):
    """The stored form of a Cluster: everything that does not follow from the rest."""

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


IMAGE_FORMAT = 1
_MOST_SHARED = 5000
_SHARED_WORDS = (
    "user_name",
    "group_name",
    "account",
    "qos",
    "partition",
    "script_hash",
    "env_hash",
    "comment",
    "alloc_host",
)
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
        # What the controller owes jobs: they configure or complete until its program has ended.
        self.programs = 0  # RUNS_* bits
        self.prologs: dict[int, None] = {}
        self.epilogs: dict[int, None] = {}
        # By kind and id or name. It counts runs that ended up to `usage_until_us`; those that ended
        # later are still among the jobs. None of before `usage_since_us` count.
        self.usage: dict[tuple[str, int | str], OwnerUsage] = {}
        self.usage_until_us = 0
        self.usage_since_us = 0
        # Indexes: follow from the above.
        self.node_by_name: dict[str, int] = {}
        self.use: list[NodeUse] = []
        self.columns = NodeColumns()
        self.pending: dict[int, None] = {}
        # Pending, but begin time or dependency not reached. Not those that are only held: there may
        # be a hundred thousand, and nothing but a user's word can change them.
        self.ineligible: dict[int, None] = {}
        self.with_deadline: dict[int, None] = {}  # pending
        self.active: dict[int, None] = {}
        self.suspended: dict[int, None] = {}  # they hold no cores, nor when they then clean up
        self.leaving: dict[int, None] = {}  # active, preempted with a grace time
        self.claims: dict[int, None] = {}  # pending, and has preempted others for what it claims
        self.ended: dict[int, None] = {}
        # By name of a node: the jobs of which a run was lost there and may go on still.
        self.lost_on: dict[str, dict[int, None]] = {}
        self.arrays: dict[int, dict[int, int]] = {}
        self.array_active: dict[int, int] = {}
        self.dependents: dict[int, dict[int, None]] = {}
        self.singletons: dict[tuple[int, str], dict[int, None]] = {}
        self.licenses_used: dict[str, int] = {}
        self.releases = 0  # how often a job has given back what it held on a node
        self.assoc_by_key: dict[tuple[str, str, str], int] = {}
        self.user_jobs: dict[int, dict[int, None]] = {}
        self.reserved: dict[int, str] = {}  # node in an active reservation -> its name
        self.array_waiting: dict[int, int] = {}  # tasks that wait in each record of an array
        self.unsplit_tasks = 0  # all of them but one for each record
        self.unsplit_by_user: dict[int, int] = {}
        self.submitted: dict[Submitter, int] = {}  # jobs that wait or run, tasks counted singly
        self._submitter_of: dict[int, Submitter] = {}
        # Answers that follow from nodes and partitions alone; emptied when one of them changes.
        self.memo: dict[object, object] = {}
        self._requests: Known = {}
        self._words: dict[Any, Any] = {}

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
        """Return the nodes of some ids, in their order; of those that are configured."""
        return [node for node_id in node_ids if (node := self.nodes[node_id]) is not None]

    def default_partition(self) -> Partition | None:
        """Return the partition jobs go to that name none."""
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
        ):
            setattr(cluster, name, getattr(image, name))
        for raw_job in image.jobs:
            # Decoded all at once, what jobs can share would leave memory full of small holes.
            job = _job_decoder.decode(raw_job)
            cluster.jobs[job.job_id] = job
            cluster.share_values(job)
        cluster.partitions = {partition.name: partition for partition in image.partitions}
        cluster.assocs = {assoc.assoc_id: assoc for assoc in image.assocs}
        cluster.qos = {qos.name: qos for qos in image.qos}
        cluster.users = {user.name: user for user in image.users}
        cluster.reservations = {item.name: item for item in image.reservations}
        cluster.licenses = dict(image.licenses)
        cluster.license_servers = {one.name: one for one in image.license_servers}
        cluster.usage = {(one.kind, one.owner): one for one in image.usage}
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
        """Make every index anew from the stored records."""
        self.node_by_name = {
            node.spec.name: index for index, node in enumerate(self.nodes) if node is not None
        }
        self.use = [NodeUse() for _ in self.nodes]
        self.columns = NodeColumns()
        for name in (
            "pending",
            "ineligible",
            "active",
            "suspended",
            "leaving",
            "claims",
            "ended",
            "lost_on",
            "arrays",
        ):
            setattr(self, name, {})
        self.array_active, self.array_waiting, self.memo = {}, {}, {}
        self.unsplit_tasks, self.unsplit_by_user = 0, {}
        self.submitted, self._submitter_of = {}, {}
        self.dependents, self.singletons, self.licenses_used, self.user_jobs = {}, {}, {}, {}
        self.index_assocs()
        self.index_reservations()
        by_end = sorted(self.jobs.values(), key=lambda job: (job.end_us, job.job_id))
        for job in self.jobs.values():
            self.index_job(job)
        self.ended = {job.job_id: None for job in by_end if job.job_id in self.ended}
        for use in self.use:
            use.count(self.suspended)
        self.touch_all_nodes()

    def index_assocs(self) -> None:
        """Index associations by (account, user, partition)."""
        self.assoc_by_key = {
            (assoc.account, assoc.user, assoc.partition): assoc.assoc_id
            for assoc in self.assocs.values()
        }

    def index_reservations(self) -> None:
        """Index the nodes of active reservations; maintenance is shown before others."""
        self.reserved = {}
        active = [item for item in self.reservations.values() if item.is_active]
        for item in sorted(active, key=lambda item: "MAINT" in item.flags):
            parts = item.parts()  # of such a node the rest is for all: it is not shown as reserved
            whole = (node_id for node_id in item.node_ids if node_id not in parts)
            self.reserved |= dict.fromkeys(whole, item.name)

    def share_values(self, job: Job) -> None:
        """Let equal requests and words of many jobs be one object: most of a job's memory."""
        # Equal requests come in runs; a table of all would itself take much of what is saved.
        if len(self._requests) > _MOST_SHARED:
            self._requests.clear()
        if len(self._words) > _MOST_SHARED:
            self._words.clear()
        job.request = kept_request(job.request, self._requests, self._words)
        share = self._words.setdefault
        for name in _SHARED_WORDS:
            word = getattr(job, name)
            setattr(job, name, share(word, word))
        if not job.steps:
            job.steps = NO_STEPS

    def index_job(self, job: Job) -> None:
        """Enter one job into all indexes; its node uses still have to be counted."""
        self.share_values(job)
        self.user_jobs.setdefault(job.uid, {})[job.job_id] = None
        self.index_job_state(job)
        if job.array_job_id and job.array_task_id < NO_VAL:
            self.arrays.setdefault(job.array_job_id, {})[job.array_task_id] = job.job_id
        self.index_dependencies(job)
        self.index_lost_runs(job, job.lost_runs)
        if job.job_id not in self.active:
            return
        if job.array_job_id:
            self.array_active[job.array_job_id] = self.array_active.get(job.array_job_id, 0) + 1
        self.take_licenses(job, 1)
        held = set(job.nodes_pending) if is_completing(job) else None
        for alloc in job.nodes_held:
            if held is None or alloc.node_id in held:
                self.use[alloc.node_id].allocs[job.job_id] = alloc
                if held is not None:
                    self.use[alloc.node_id].completing[job.job_id] = None
        for alloc in job.nodes_leaving:
            self.use[alloc.node_id].completing[job.job_id] = None

    def index_lost_runs(self, job: Job, runs: tuple[LostRun, ...]) -> None:
        """Enter a job for the nodes that have not said what became of its runs there."""
        for run in job.lost_runs:
            of_node = self.lost_on.get(run.node)
            if of_node is not None:
                of_node.pop(job.job_id, None)
                if not of_node:
                    del self.lost_on[run.node]
        for run in runs:
            if not run.proof:
                self.lost_on.setdefault(run.node, {})[job.job_id] = None

    def index_dependencies(self, job: Job) -> None:
        """Enter a job where those it waits for will look for it."""
        if job.state in TERMINAL_STATES:
            return  # what was never met is only shown
        for term in job.dependencies:
            if term.job_id:
                self.dependents.setdefault(term.job_id, {})[job.job_id] = None
            else:
                key = (job.uid, job.request.name)
                self.singletons.setdefault(key, {})[job.job_id] = None

    def index_job_state(self, job: Job) -> None:
        """Put a job into the one state index it belongs to."""
        job_id = job.job_id
        for index in (self.pending, self.ineligible, self.active, self.ended, self.suspended):
            index.pop(job_id, None)
        self.count_array(job)
        self.with_deadline.pop(job_id, None)
        self.claims.pop(job_id, None)
        self.leaving.pop(job_id, None)
        if job.state == JobState.PENDING:
            if job.request.deadline_us:
                self.with_deadline[job_id] = None
            self.pending[job_id] = None
            if job.claim:
                self.claims[job_id] = None
            if not job.eligible_us and (job.priority or job.dependencies):
                self.ineligible[job_id] = None
        elif job.state in TERMINAL_STATES and not is_completing(job):
            self.ended[job_id] = None
        else:
            self.active[job_id] = None
            if job.preempt_end_us:
                self.leaving[job_id] = None
            if job.state == JobState.SUSPENDED or (is_completing(job) and job.suspended_by):
                self.suspended[job_id] = None

    def count_array(self, job: Job) -> None:
        """Count the tasks that wait in the record of an array."""
        before = self.array_waiting.pop(job.job_id, 1)
        now = task_ranges.count(job.array_pending) if job.state == JobState.PENDING else 0
        if now:
            self.array_waiting[job.job_id] = now
        if max(now, 1) != before:
            self._count_unsplit(job.uid, max(now, 1) - before)
        self._count_submitted(job, before, max(now, 1))

    def _count_unsplit(self, uid: int, more: int) -> None:
        """Count tasks that have no record of their own, of all users and of theirs."""
        self.unsplit_tasks += more
        counted = self.unsplit_by_user
        left = counted.get(uid, 0) + more
        if left:
            counted[uid] = left
        else:
            del counted[uid]

    def _count_submitted(self, job: Job, before: int, now: int) -> None:
        """Count a record as `now` jobs of its submitter; so far it was `before`, if it counted."""
        job_id, counted = job.job_id, self.submitted
        known = self._submitter_of.get(job_id)
        submitter: Submitter | None = None
        if job.state not in TERMINAL_STATES or is_completing(job):
            submitter = Submitter(job.uid, job.assoc_id, job.account, job.qos, job.partition)
        if submitter == known and before == now:
            return
        if known is not None:
            left = counted[known] - before
            if left:
                counted[known] = left
            else:
                del counted[known]
        if submitter is None:
            self._submitter_of.pop(job_id, None)
        else:
            self._submitter_of[job_id] = self._words.setdefault(submitter, submitter)
            counted[submitter] = counted.get(submitter, 0) + now

    def licenses_left(self, name: str) -> int:
        """Return how many of a licence are free, counting use elsewhere; below 0 if too many are in
        use."""
        server = self.license_servers.get(name)
        missing = server.deficit if server is not None else 0
        return self.licenses.get(name, 0) - self.licenses_used.get(name, 0) - missing

    def take_licenses(self, job: Job, sign: int) -> None:
        """Count (sign 1) or give back (sign -1) the licences a job holds."""
        for name, count in license_counts(job.licenses_alloc):
            self.licenses_used[name] = self.licenses_used.get(name, 0) + sign * count

    def touch_all_nodes(self) -> None:
        """Make all columns anew."""
        total = len(self.nodes)
        self.columns.usable = bytearray(total)
        self.columns.cpus_free = array("i", bytes(4 * total))
        self.columns.mem_free_mib = array("q", bytes(8 * total))
        self.columns.in_use = bytearray(total)
        self.columns.cores_busy = [0] * total
        self.columns.gres_busy = [_NOTHING] * total
        self.columns.gres_used = [_NOTHING] * total
        self.columns.gres_changes += 1
        for node_id in range(total):
            self.touch_node(node_id)

    def touch_node(self, node_id: int) -> None:
        """Bring one node's columns up to date."""
        node, use, columns = self.nodes[node_id], self.use[node_id], self.columns
        if node is None:
            columns.usable[node_id] = 0
            columns.cpus_free[node_id] = 0
            columns.mem_free_mib[node_id] = 0
            return
        columns.usable[node_id] = node.state == NodeState.IDLE and not node.flags & UNUSABLE_FLAGS
        columns.cpus_free[node_id] = effective_cpus(node.spec) - use.cpus
        columns.mem_free_mib[node_id] = schedulable_mem_mib(node.spec) - use.mem_mib
        columns.in_use[node_id] = bool(use.allocs)
        columns.cores_busy[node_id] = use.cores
        if use.gres_count or columns.gres_used[node_id]:
            columns.set_gres(node_id, use)

    def hold(self, job_id: int, allocs: Iterable[NodeAlloc]) -> None:
        """Let a running job hold something on nodes."""
        uses, nodes, columns = self.use, self.nodes, self.columns
        cpus_free, mem_free_mib = columns.cpus_free, columns.mem_free_mib
        in_use, cores_busy = columns.in_use, columns.cores_busy
        known, cores = b"", 0
        for alloc in allocs:
            node_id = alloc.node_id
            use = uses[node_id]
            if use.allocs or alloc.gres or nodes[node_id] is None:
                self._hold_more(job_id, alloc)
                continue
            # Most nodes of large jobs were empty, and the same is held on all of them.
            if alloc.cores is not known:
                known, cores = alloc.cores, int.from_bytes(alloc.cores, "little")
            use.allocs[job_id] = alloc
            use.cpus, use.cores, mem_mib = alloc.cpus, cores, alloc.mem_mib
            cpus_free[node_id] -= alloc.cpus
            if mem_mib:
                use.mem_mib = mem_mib
                mem_free_mib[node_id] -= mem_mib
            in_use[node_id] = 1
            cores_busy[node_id] = cores

    def _hold_more(self, job_id: int, alloc: NodeAlloc) -> None:
        """Let a job hold devices, or something beside others."""
        node_id = alloc.node_id
        use, columns = self.use[node_id], self.columns
        before = use.cpus
        use.add(job_id, alloc)
        if self.nodes[node_id] is None:
            return
        columns.cpus_free[node_id] -= use.cpus - before  # cores may be shared
        columns.mem_free_mib[node_id] -= alloc.mem_mib
        columns.in_use[node_id] = 1
        columns.cores_busy[node_id] = use.cores
        if alloc.gres:
            columns.set_gres(node_id, use)

    def give_back(self, job_id: int, node_ids: Iterable[int], time_us: int) -> None:
        """End what a job holds on nodes."""
        uses, nodes, columns = self.use, self.nodes, self.columns
        cpus_free, mem_free_mib = columns.cpus_free, columns.mem_free_mib
        in_use, cores_busy = columns.in_use, columns.cores_busy
        released = 0
        for node_id in node_ids:
            use, node = uses[node_id], nodes[node_id]
            allocs = use.allocs
            assert job_id in allocs, (job_id, node_id)
            del allocs[job_id]
            if use.completing:
                use.completing.pop(job_id, None)
            released += 1
            if node is not None:
                node.last_busy_us = time_us
            if allocs or node is None:
                self.recount(node_id)
                continue
            # Most nodes of large jobs are given back whole.
            cpus_free[node_id] += use.cpus
            in_use[node_id] = use.cpus = use.cores = 0
            cores_busy[node_id] = 0
            if use.mem_mib:
                mem_free_mib[node_id] += use.mem_mib
                use.mem_mib = 0
            if use.gres_count:
                use.gres, use.gres_count = {}, {}
                columns.set_gres(node_id, use)
        self.releases += released

    def recount(self, node_id: int) -> None:
        """Add up anew what jobs hold on a node."""
        self.use[node_id].count(self.suspended)
        self.touch_node(node_id)


def _packed(job: Job) -> msgspec.Raw:
    """Return a job's stored form."""
    return msgspec.Raw(_encoder.encode(replace(job, request=whole_request(job.request))))


def is_completing(job: Job) -> bool:
    """Return whether a job is over but some node still cleans up."""
    return bool(job.flags & JobFlag.COMPLETING)


def effective_cpus(spec: NodeSpec) -> int:
    """Return the CPUs that jobs may use: all but the specialised cores'."""
    threads = max(1, spec.threads_per_core)
    special = spec.core_spec_count
    if spec.cpu_spec_list:
        special = len({cpu // threads for cpu in id_ranges(spec.cpu_spec_list)})
    return max(0, spec.cpus - special * threads)


def schedulable_mem_mib(spec: NodeSpec) -> int:
    """Return the memory that jobs may use."""
    return max(0, spec.real_memory_mib - spec.mem_spec_limit_mib)


def id_ranges(text: str) -> list[int]:
    """Return the ids that `0-3,8` names."""
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ids.extend(range(int(first), int(last or first) + 1))
    return ids


def is_remote(license_name: str) -> bool:
    """Return whether a licence is another server's: NAME@SERVER, as slurmdbd gives them."""
    return "@" in license_name


def remote_licenses(cluster: Cluster) -> list[tuple[str, int]]:
    """Return the licences of other servers; slurm.conf says nothing of them."""
    return [(name, count) for name, count in cluster.licenses.items() if is_remote(name)]


def license_counts(text: str) -> list[tuple[str, int]]:
    """Return names and counts of `matlab:2,ansys`; of alternatives joined by | the first."""
    counts = []
    for part in text.partition("|")[0].split(","):
        if part:
            name, _, count = part.replace("=", ":").partition(":")
            counts.append((name, int(count or 1)))
    return counts


def node_state(cluster: Cluster, node: Node) -> tuple[NodeState, int]:
    """Return a node's base state, with ALLOCATED and MIXED derived, and its `NodeFlag` bits."""
    use = cluster.use[node.node_id]
    flags = node.flags
    base = NodeState(node.state)
    if use.completing:
        flags |= NodeFlag.COMPLETING
    reservation = cluster.reserved.get(node.node_id)
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
    found: list[Job] = []
    if not leader:
        return found
    offset = 0
    # Their ids follow one another; the first records may have been purged.
    while True:
        other = cluster.jobs.get(leader + offset)
        if other is not None and other.het_job_id == leader:
            found.append(other)
        elif offset > job.het_offset:
            return found
        offset += 1

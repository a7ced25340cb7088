"""Messages of sreport: slurmdbd adds up what it has stored, sreport chooses and prints.

Times are whole seconds since the epoch where the name ends in `_s`. An empty list of clusters means
all of them; clusters that slurmdbd does not know have no rows. Rows are positional arrays in the
order of `fields`, in the bulk format of `wire.query_messages`; amounts are seconds times amount.
"""

from typing import Annotated, Literal

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.dbd_messages import FewNames, ManyNames, Name
from pyslurm_ng.wire.table import message, reply

SecondOfTime = Annotated[int, msgspec.Meta(ge=0, le=2**38)]


@message(kind="ListUsage", roles="user", max_bytes=65536)
class ListUsage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Asks what clusters, associations or wckeys used from `start_s` to `end_s`.

    With `by_qos` the rows of accounts are followed by one for each QOS instead of their users.
    """

    what: Literal["cluster", "association", "wckey"]
    start_s: SecondOfTime
    end_s: SecondOfTime
    clusters: FewNames = []
    by_qos: bool = False


@reply("UsageRows")
class UsageRows(msgspec.Struct, frozen=True):
    """Usage by cluster, then by what was asked for.

    `tres` names all TRES in their order. `clusters` has those that are asked for and known, by
    name, each with the rows of its TRES: `CLUSTER_SUMS`. Each record ends with the amounts of all
    TRES, in their order.
    """

    tres: list[str]
    clusters: list[tuple[str, list[tuple[int, ...]]]]
    fields: list[str]
    records: bytes


CLUSTER_SUMS = ("count", "allocated", "down", "planned_down", "idle", "planned", "over")
"""What each TRES of a cluster has; without `over` they add up to the whole time of `count`."""


@message(kind="ListJobSizes", roles="user", max_bytes=1 << 20)
class ListJobSizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Asks how long jobs of each size ran from `start_s` to `end_s`; empty lists do not restrict.

    `tres` is the one that is counted. With `by_wckey` jobs are told apart by their wckeys, which
    only operators may ask for.
    """

    start_s: SecondOfTime
    end_s: SecondOfTime
    clusters: FewNames = []
    tres: Name = "cpu"
    by_wckey: bool = False
    uids: Annotated[list[b.UserIdField], msgspec.Meta(max_length=10_000)] = []
    gids: Annotated[list[b.UserIdField], msgspec.Meta(max_length=10_000)] = []
    jobs: Annotated[list[b.JobIdField], msgspec.Meta(max_length=10_000)] = []
    partitions: FewNames = []
    nodes: ManyNames = []
    wckeys: ManyNames = []


@reply("JobSizes")
class JobSizes(msgspec.Struct, frozen=True):
    """Jobs by cluster, account, wckey and CPUs, with their number and what they have used.

    `parents` has, for each cluster, the account above each account.
    """

    tres: list[str]
    parents: dict[str, dict[str, str]]
    fields: list[str]
    records: bytes


@message(kind="ListReservationUsage", roles="user", max_bytes=1 << 20)
class ListReservationUsage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Asks what jobs used of the reservations that there were from `start_s` to `end_s`."""

    start_s: SecondOfTime
    end_s: SecondOfTime
    clusters: FewNames = []
    names: FewNames = []
    nodes: ManyNames = []


@reply("ReservationUsage")
class ReservationUsage(msgspec.Struct, frozen=True):
    """The times for which reservations were the same, by begin.

    Each has its amount of each TRES, and the seconds times amount that its jobs have used.
    """

    tres: list[str]
    fields: list[str]
    records: bytes

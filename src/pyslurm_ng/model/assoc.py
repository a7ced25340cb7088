"""Associations and qualities of service, as copies of slurmdbd's records."""

from collections.abc import Collection, Container, Iterable

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.numbers import INFINITE

DEFAULT_WCKEY = "*"
"""Begins the wckey of a job that named none."""


class Limits(Struct, array_like=True, frozen=True, gc=False):
    """Limits of an association or QOS; INFINITE (and an absent TRES) does not limit."""

    grp_jobs: int = INFINITE
    grp_jobs_accrue: int = INFINITE
    grp_submit: int = INFINITE
    grp_tres: dict[str, int] = {}
    grp_tres_mins: dict[str, int] = {}
    grp_tres_run_mins: dict[str, int] = {}
    grp_wall_min: int = INFINITE
    max_jobs: int = INFINITE
    max_jobs_accrue: int = INFINITE
    max_submit: int = INFINITE
    max_tres_per_job: dict[str, int] = {}
    max_tres_per_node: dict[str, int] = {}
    max_tres_mins_per_job: dict[str, int] = {}
    max_tres_run_mins: dict[str, int] = {}
    max_wall_min: int = INFINITE
    min_priority: int = INFINITE
    # QOS only.
    max_jobs_per_account: int = INFINITE
    max_submit_per_account: int = INFINITE
    max_tres_per_user: dict[str, int] = {}
    max_tres_per_account: dict[str, int] = {}
    min_tres_per_job: dict[str, int] = {}
    max_tres_run_mins_per_account: dict[str, int] = {}
    max_jobs_accrue_per_account: int = INFINITE


class Association(Struct, array_like=True, frozen=True, gc=False):
    """A node of the account tree; `user` is empty for an account itself."""

    assoc_id: int
    account: str
    user: str = ""
    partition: str = ""
    parent_id: int = 0
    lineage: str = ""
    shares: int = 1  # INFINITE means `parent`
    priority: int = 0
    default_qos: str = ""
    qos: tuple[str, ...] = ()
    is_default: bool = False
    limits: Limits = Limits()
    comment: str = ""
    usage_reset_us: int = 0  # when an administrator last set what it had used to zero


class Qos(Struct, array_like=True, frozen=True, gc=False):
    """A quality of service."""

    qos_id: int
    name: str
    description: str = ""
    priority: int = 0
    flags: tuple[str, ...] = ()
    grace_time_s: int = 0
    preempt: tuple[str, ...] = ()
    preempt_mode: str = ""
    preempt_exempt_s: int = INFINITE
    usage_factor_millionths: int = 1_000_000
    usage_threshold_millionths: int = INFINITE
    limit_factor_millionths: int = 0
    limits: Limits = Limits()
    usage_reset_us: int = 0  # as of an association


class OwnerUsage(Struct, array_like=True, frozen=True, gc=False):
    """What an association or QOS had used up to one moment; runs that ended before it count.

    `owner` is the id of an association, or the name of a QOS. Seconds are TRES-seconds: amounts
    (memory in MiB) times seconds, with decay and UsageFactor.
    """

    kind: str  # assoc or qos
    owner: int | str
    at_us: int
    wall_s: int = 0
    tres_s: dict[str, int] = {}
    since_us: int = 0  # usage was set to zero then; what was used before does not count


class UserRecord(Struct, array_like=True, frozen=True, gc=False):
    """A user known to accounting."""

    name: str
    default_account: str = ""
    admin_level: str = "None"  # None Operator Administrator
    coordinator_of: tuple[str, ...] = ()
    default_wckey: str = ""
    wckeys: tuple[str, ...] = ()


class AssocIndex:
    """Ids of associations by (account, user, partition), and the tree of accounts."""

    __slots__ = ("account_above", "accounts_in", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, str, str], int] = {}
        self.accounts_in: dict[str, list[str]] = {}  # the accounts directly below each account
        self.account_above: dict[str, str] = {}

    def enter_all(self, assocs: Collection[Association]) -> None:
        """Forget what was known, and enter these."""
        self.by_key = {
            (assoc.account, assoc.user, assoc.partition): assoc.assoc_id for assoc in assocs
        }
        own = [assoc for assoc in assocs if not assoc.user]
        names = {assoc.assoc_id: assoc.account for assoc in own}
        self.accounts_in = {}
        self.account_above = {}
        for assoc in own:
            if assoc.parent_id in names:
                self.accounts_in.setdefault(names[assoc.parent_id], []).append(assoc.account)
                self.account_above[assoc.account] = names[assoc.parent_id]

    def is_within(self, account: str, accounts: Container[str]) -> bool:
        """Return whether an account is one of these, or below one of them."""
        name: str | None = account
        while name is not None and name not in accounts:
            name = self.account_above.get(name)
        return name is not None

    def with_accounts_below(self, accounts: Iterable[str]) -> tuple[str, ...]:
        """Return accounts and all accounts below them."""
        accounts_below = dict.fromkeys(accounts)
        todo = list(accounts_below)
        while todo:
            below = [
                name for name in self.accounts_in.get(todo.pop(), ()) if name not in accounts_below
            ]
            accounts_below.update(dict.fromkeys(below))
            todo += below
        return tuple(accounts_below)


def with_limits(qos: Qos, **limits: dict[str, int]) -> Qos:
    """Return a QOS with some limits on TRES changed."""
    return replace(qos, limits=replace(qos.limits, **limits))

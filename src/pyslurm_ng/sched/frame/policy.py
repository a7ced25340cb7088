"""What the administrator decided about scheduling, taken out of slurm.conf once per load."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.base.tres import parse_weights
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.request.need import DEFAULTS, Selection

EVERY_JOB = 1 << 62
_ASSOCIATIONS = frozenset(("associations", "limits", "qos", "safe", "wckeys", "all"))
_LIMITS = frozenset(("limits", "safe", "all"))  # words of AccountingStorageEnforce


@dataclass(frozen=True, slots=True)
class Policy:
    """Weights and switches of ordering and selection. Durations in seconds."""

    is_multifactor: bool = True
    weight_age: int = 0
    weight_assoc: int = 0
    weight_fairshare: int = 0
    weight_size: int = 0
    weight_partition: int = 0
    weight_qos: int = 0
    weight_tres: dict[str, float] = field(default_factory=dict)
    max_age_s: int = 7 * 86400
    favor_small: bool = False
    size_relative_to_time: bool = False
    accrues_always: bool = False  # age counts from submission
    only_increases: bool = False
    no_normal: frozenset[str] = frozenset()  # of assoc part qos tres
    selection: Selection = DEFAULTS
    backfills: bool = True  # else jobs of a partition start strictly in order
    time_min_is_soft: bool = False  # plan with --time-min, leave the limit
    is_smart: bool = False  # see `smart`
    enforces_limits: bool = False  # those of associations and QOS
    is_safe: bool = False  # no start that could use up the minutes left
    stops_at_limits: bool = False  # no job starts behind one that waits for a limit
    enforces_associations: bool = False  # jobs without one may not run
    reserve_depth: int = EVERY_JOB  # waiting jobs with a reservation; the others only start
    window_s: int = 14 * 86400
    test_depth: int = EVERY_JOB
    # Of the jobs behind a blocked one, how many are looked at; 0: all.
    most_of_user: int = 0
    most_of_assoc: int = 0
    most_of_partition: int = 0
    most_of_user_in_partition: int = 0
    most_backfilled: int = 0  # starts of one pass from behind a blocked job; 0: any number
    least_age_to_reserve_s: int = 0
    least_priority_to_reserve: int = 0
    array_depth: int = 20  # tasks of one array that are given a reservation
    reserves_once: bool = False  # a job has a reservation in the first of its partitions only
    preempt_by: str = ""  # how jobs preempt: partition_prio, qos, or not at all
    preempt_mode: frozenset[str] = frozenset()  # words of PreemptMode
    preempt_exempt_s: int = 0  # run time before which no job is preempted
    preempts_youngest_first: bool = False
    preempt_exempt_priority: int = 0  # of victims; 0: any may be preempted
    reclaims_licenses: bool = False
    plans_on_busy_nodes: bool = False  # room for later is kept on nodes in use, if that will do
    plans_in_magnets: bool = False  # jobs are kept room in reservations that draw them, too
    packs_serial: bool = False  # jobs of one CPU get the last nodes that fit, not the first
    time_slice_s: int = 0  # of gang scheduling; 0: jobs that share cores just run
    sends_user_signal: bool = False  # --signal besides SIGTERM when a grace time begins
    complete_wait_s: int = 0  # that long a completing job keeps others from starting
    waits_near: bool = False  # only in partitions that share nodes with its own
    over_run_us: int = 0  # by how much jobs may outlive their reservation; NO_END_US: for ever
    het_priority: str = ""  # min, avg or max of the components' priorities; "" as min

    @property
    def stops_jobs(self) -> bool:
        """Whether jobs that run are ended when their association or QOS has no minutes left."""
        return self.enforces_limits and not self.is_safe

    @property
    def limits_backfill(self) -> bool:
        """Whether some jobs behind a blocked one are passed over, or get no reservation."""
        return any(
            (
                self.most_of_user,
                self.most_of_assoc,
                self.most_of_partition,
                self.most_of_user_in_partition,
                self.most_backfilled,
                self.least_age_to_reserve_s,
                self.least_priority_to_reserve,
            )
        )

    @property
    def promises_all(self) -> bool:
        """Whether room is kept for every job that has any in the window."""
        is_deep = min(self.reserve_depth, self.test_depth) >= EVERY_JOB
        return is_deep and not (self.is_smart or self.limits_backfill)


def policy(conf: SlurmConf) -> Policy:
    """Return the policy that `conf` asks for."""
    made = _policy(conf)
    return made if made.backfills else _without_backfill(made)


def _without_backfill(made: Policy) -> Policy:
    """Return a policy in which the options of backfill are as if they were not set."""
    return replace(
        made,
        time_min_is_soft=False,
        is_smart=False,
        reserve_depth=EVERY_JOB,
        test_depth=EVERY_JOB,
        most_of_user=0,
        most_of_assoc=0,
        most_of_partition=0,
        most_of_user_in_partition=0,
        most_backfilled=0,
        least_age_to_reserve_s=0,
        least_priority_to_reserve=0,
    )


def _policy(conf: SlurmConf) -> Policy:
    flags = {flag.upper() for flag in conf.priority_flags}
    scheduler = _numbers(conf.scheduler_parameters)
    words = {word.lower() for word in conf.scheduler_parameters}
    preempt = {word.lower() for word in conf.preempt_parameters}
    return Policy(
        is_multifactor=conf.priority_type.endswith("multifactor"),
        weight_age=conf.priority_weight_age,
        weight_assoc=conf.priority_weight_assoc,
        weight_fairshare=conf.priority_weight_fairshare,
        weight_size=conf.priority_weight_job_size,
        weight_partition=conf.priority_weight_partition,
        weight_qos=conf.priority_weight_qos,
        max_age_s=conf.priority_max_age,
        favor_small=conf.priority_favor_small,
        size_relative_to_time="SMALL_RELATIVE_TO_TIME" in flags,
        weight_tres=tres_weights(conf.priority_weight_tres),
        accrues_always="ACCRUE_ALWAYS" in flags,
        only_increases="INCR_ONLY" in flags,
        no_normal=raw_factors(flags),
        selection=selection(conf),
        backfills=conf.scheduler_type != "sched/builtin",
        time_min_is_soft="time_min_as_soft_limit" in words,
        is_smart="bf_smart" in words,
        complete_wait_s=conf.complete_wait,
        waits_near="reduce_completing_frag" in words,
        enforces_associations=not _ASSOCIATIONS.isdisjoint(
            word.lower() for word in conf.accounting_storage_enforce
        ),
        enforces_limits=not _LIMITS.isdisjoint(
            word.lower() for word in conf.accounting_storage_enforce
        ),
        is_safe="safe" in {word.lower() for word in conf.accounting_storage_enforce},
        stops_at_limits="assoc_limit_stop" in words,
        reserve_depth=min(
            scheduler.get("bf_reserve_depth", EVERY_JOB),
            scheduler.get("bf_job_part_count_reserve", 0) or EVERY_JOB,
        ),
        most_of_user=scheduler.get("bf_max_job_user", 0),
        most_of_assoc=scheduler.get("bf_max_job_assoc", 0),
        most_of_partition=scheduler.get("bf_max_job_part", 0),
        most_of_user_in_partition=scheduler.get("bf_max_job_user_part", 0),
        most_backfilled=scheduler.get("bf_max_job_start", 0),
        least_age_to_reserve_s=scheduler.get("bf_min_age_reserve", 0),
        least_priority_to_reserve=scheduler.get("bf_min_prio_reserve", 0),
        window_s=60 * scheduler.get("bf_window", 14 * 1440),
        test_depth=scheduler.get("bf_max_job_test", EVERY_JOB),
        array_depth=scheduler.get("bf_max_job_array_resv", 20),
        reserves_once="bf_one_resv_per_job" in words,
        preempt_by=conf.preempt_type.removeprefix("preempt/"),
        preempt_mode=frozenset(conf.preempt_mode),
        preempt_exempt_s=exempt_s(conf),
        preempts_youngest_first="youngest_first" in preempt,
        preempt_exempt_priority=_numbers(conf.preempt_parameters).get("min_exempt_priority", 0),
        plans_on_busy_nodes="bf_busy_nodes" in words,
        plans_in_magnets="bf_allow_magnetic_slot" in words,
        packs_serial="pack_serial_at_end" in words,
        reclaims_licenses="reclaim_licenses" in preempt,
        time_slice_s=conf.scheduler_time_slice if "GANG" in conf.preempt_mode else 0,
        sends_user_signal="send_user_signal" in preempt,
        over_run_us=over_run_us(conf),
        het_priority=_word(conf.scheduler_parameters, "bf_hetjob_prio"),
    )


def raw_factors(flags: set[str]) -> frozenset[str]:
    """Return the priority factors that PriorityFlags (in upper case) leave as they are.

    All others are divided by the largest of their kind.
    """
    every = ("assoc", "part", "qos", "tres")
    is_all = "NO_NORMAL_ALL" in flags
    return frozenset(name for name in every if is_all or f"NO_NORMAL_{name.upper()}" in flags)


def selection(conf: SlurmConf) -> Selection:
    """Return how cores and devices are chosen: all that a submission needs of the policy."""
    return _selection(conf.select_type_parameters, allows_special=conf.allow_spec_resources_usage)


@lru_cache(maxsize=8)  # each submission asks, and few configurations are about
def _selection(words: tuple[str, ...], *, allows_special: bool) -> Selection:
    select = {word.upper() for word in words}
    return Selection(
        with_memory=any(word.endswith("MEMORY") for word in select) or not select,
        least_loaded="CR_LLN" in select,
        whole_sockets=any(word.startswith("CR_SOCKET") for word in select),
        charges_threads=not select.isdisjoint({"CR_CPU", "CR_CPU_MEMORY"}),
        one_task_per_core="CR_ONE_TASK_PER_CORE" in select,
        is_block="CR_CORE_DEFAULT_DIST_BLOCK" in select,
        parts_of_many="MULTIPLE_SHARING_GRES_PJ" in select,
        one_task_per_gpu="ONE_TASK_PER_SHARING_GRES" in select,
        spreads_parts="LL_SHARED_GRES" in select,
        enforces_binding="ENFORCE_BINDING_GRES" in select,
        allows_special=allows_special,
    )


def over_run_us(conf: SlurmConf) -> int:
    """Return how much longer than a reservation its jobs may run: ResvOverRun."""
    over_min = conf.resv_over_run
    return NO_END_US if over_min == INFINITE else over_min * MINUTE_US


def exempt_s(conf: SlurmConf) -> int:
    """Return PreemptExemptTime, 0 where nothing is said."""
    return conf.preempt_exempt_time if 0 <= conf.preempt_exempt_time < NO_VAL else 0


def _word(options: tuple[str, ...], name: str) -> str:
    """Return the value of an option in lower case, "" when it is not set."""
    pairs = (option.partition("=") for option in options)
    return next((value.lower() for key, _, value in pairs if key.lower() == name), "")


def _numbers(options: tuple[str, ...]) -> dict[str, int]:
    """Return the options that are numbers; the configuration has judged them."""
    pairs = (option.partition("=") for option in options)
    return {name.lower(): int(value) for name, _, value in pairs if value.isdecimal()}


def tres_weights(text: str) -> dict[str, float]:
    """Return the weights of `PriorityWeightTRES`; the configuration has judged the text."""
    return {weight.name: weight.millionths / 1e6 for weight in parse_weights(text)}

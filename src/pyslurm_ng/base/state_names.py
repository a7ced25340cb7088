"""Names of job and node states as commands print and take them; plain tables, quick to import."""

from pyslurm_ng.base import numbers as n

JOB_STATES = (
    ("PENDING", "PD"),
    ("RUNNING", "R"),
    ("SUSPENDED", "S"),
    ("COMPLETED", "CD"),
    ("CANCELLED", "CA"),
    ("FAILED", "F"),
    ("TIMEOUT", "TO"),
    ("NODE_FAIL", "NF"),
    ("PREEMPTED", "PR"),
    ("BOOT_FAIL", "BF"),
    ("DEADLINE", "DL"),
    ("OUT_OF_MEMORY", "OOM"),
)
# The first flag set, in this order, is shown instead of the base state.
JOB_FLAGS = (
    (n.JOB_FLAG_COMPLETING, "COMPLETING", "CG"),
    (n.JOB_FLAG_STAGE_OUT, "STAGE_OUT", "SO"),
    (n.JOB_FLAG_CONFIGURING, "CONFIGURING", "CF"),
    (n.JOB_FLAG_EXPEDITING, "EXPEDITING", "EX"),
    (n.JOB_FLAG_RESIZING, "RESIZING", "RS"),
    (n.JOB_FLAG_REQUEUED, "REQUEUED", "RQ"),
    (n.JOB_FLAG_REQUEUE_FED, "REQUEUE_FED", "RF"),
    (n.JOB_FLAG_REQUEUE_HOLD, "REQUEUE_HOLD", "RH"),
    (n.JOB_FLAG_SPECIAL_EXIT, "SPECIAL_EXIT", "SE"),
    (n.JOB_FLAG_STOPPED, "STOPPED", "ST"),
    (n.JOB_FLAG_REVOKED, "REVOKED", "RV"),
    (n.JOB_FLAG_RESV_DEL_HOLD, "RESV_DEL_HOLD", "RD"),
    (n.JOB_FLAG_SIGNALING, "SIGNALING", "SI"),
)
# The order of the list that squeue prints after a bad state.
_LISTED_FLAGS = (
    "COMPLETING CONFIGURING EXPEDITING RESIZING RESV_DEL_HOLD REQUEUED REQUEUE_FED REQUEUE_HOLD "
    "REVOKED SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED"
)

NODE_STATES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
NODE_FLAGS = (
    (n.NODE_FLAG_EXTERNAL, "EXTERNAL"),
    (n.NODE_FLAG_RESERVED, "RESERVED"),
    (n.NODE_FLAG_UNDRAIN, "UNDRAIN"),
    (n.NODE_FLAG_CLOUD, "CLOUD"),
    (n.NODE_FLAG_RESUME, "RESUME"),
    (n.NODE_FLAG_DRAIN, "DRAIN"),
    (n.NODE_FLAG_COMPLETING, "COMPLETING"),
    (n.NODE_FLAG_NOT_RESPONDING, "NOT_RESPONDING"),
    (n.NODE_FLAG_POWERED_DOWN, "POWERED_DOWN"),
    (n.NODE_FLAG_FAIL, "FAIL"),
    (n.NODE_FLAG_POWERING_UP, "POWERING_UP"),
    (n.NODE_FLAG_MAINTENANCE, "MAINTENANCE"),
    (n.NODE_FLAG_REBOOT_REQUESTED, "REBOOT_REQUESTED"),
    (n.NODE_FLAG_REBOOT_CANCEL, "REBOOT_CANCEL"),
    (n.NODE_FLAG_POWERING_DOWN, "POWERING_DOWN"),
    (n.NODE_FLAG_DYNAMIC_FUTURE, "DYNAMIC_FUTURE"),
    (n.NODE_FLAG_REBOOT_ISSUED, "REBOOT_ISSUED"),
    (n.NODE_FLAG_PLANNED, "PLANNED"),
    (n.NODE_FLAG_INVALID_REG, "INVALID_REG"),
    (n.NODE_FLAG_POWER_DOWN, "POWER_DOWN"),
    (n.NODE_FLAG_POWER_UP, "POWER_UP"),
    (n.NODE_FLAG_POWER_DRAIN, "POWER_DRAIN"),
    (n.NODE_FLAG_DYNAMIC_NORM, "DYNAMIC_NORM"),
    (n.NODE_FLAG_BLOCKED, "BLOCKED"),
)
NODE_FLAG = {name: bit for bit, name in NODE_FLAGS}
# The order in which scontrol of Slurm 22.05 names them behind the state.
_NAMED_FLAGS = (
    "BLOCKED CLOUD COMPLETING DRAIN UNDRAIN DYNAMIC_FUTURE DYNAMIC_NORM EXTERNAL FAIL INVALID_REG "
    "MAINTENANCE POWER_DOWN POWER_UP POWER_DRAIN POWERED_DOWN REBOOT_CANCEL REBOOT_REQUESTED "
    "REBOOT_ISSUED RESERVED RESUME NOT_RESPONDING PLANNED POWERING_DOWN POWERING_UP"
).split()


# A job that was requeued into hold waits like others; only JSON has its flag.
_SHOWN_FLAGS = tuple(row for row in JOB_FLAGS if row[0] != n.JOB_FLAG_REQUEUE_HOLD)


def job_state(state: int, flags: int) -> str:
    """Return a job's state in one word."""
    if flags:
        for bit, name, _ in _SHOWN_FLAGS:
            if flags & bit:
                return name
    return JOB_STATES[state][0]


def job_state_compact(state: int, flags: int) -> str:
    """Return a job's state in two or three letters."""
    if flags:
        for bit, _, compact in _SHOWN_FLAGS:
            if flags & bit:
                return compact
    return JOB_STATES[state][1]


def parse_job_state(word: str) -> tuple[int, int] | None:
    """Return (base state or -1, flag bit or 0) for a name or its compact form, in any case."""
    name = word.strip().upper()
    for number, names in enumerate(JOB_STATES):
        if name in names:
            return number, 0
    for bit, long_name, compact in JOB_FLAGS:
        if name in (long_name, compact):
            return -1, bit
    return None


def job_state_list() -> str:
    """Return all names as squeue lists them after a bad one."""
    names = [name for name, _ in JOB_STATES] + _LISTED_FLAGS.split()
    return ",".join(names).lower()


def shown_flags(flags: int, *, is_planned: bool, is_blocked: bool) -> int:
    """Return a node's flags with those that follow from what jobs do."""
    planned = n.NODE_FLAG_PLANNED if is_planned else 0
    return flags | planned | (n.NODE_FLAG_BLOCKED if is_blocked else 0)


def node_state_full(state: int, flags: int) -> str:
    """Return `BASE+FLAG+FLAG` as scontrol prints it."""
    words = [NODE_STATES[state]]
    words += [name for name in _NAMED_FLAGS if flags & NODE_FLAG[name]]
    return "+".join(words)


_DRAINING_STATES = ("ALLOCATED", "MIXED")


def node_state_words(state: int, flags: int) -> tuple[str, str]:
    """Return a node's state as sinfo prints it: long (`draining`) and compact (`drng`).

    Both carry Slurm's suffix: `*` silent, `~` powered down, `#` powering up, `!` power down
    pending, `%` powering down, `$` maintenance, `@` reboot pending, `^` rebooting, `-` planned.
    """
    long_word, compact = _words(NODE_STATES[state], flags)
    suffix = _suffix(long_word, flags)
    return long_word + suffix, compact + suffix


def _words(base: str, flags: int) -> tuple[str, str]:
    is_busy = base in _DRAINING_STATES or flags & n.NODE_FLAG_COMPLETING
    if flags & n.NODE_FLAG_INVALID_REG:
        return "inval", "inval"
    if flags & n.NODE_FLAG_REBOOT_ISSUED:
        return "reboot", "boot"
    if flags & n.NODE_FLAG_FAIL:
        if is_busy:
            return "failing", "failg"
        return "fail", "fail"
    if flags & n.NODE_FLAG_DRAIN and base not in ("UNKNOWN",):
        if is_busy:
            return "draining", "drng"
        return "drained", "drain"
    if flags & n.NODE_FLAG_DRAIN:
        return "drained", "drain"
    if base == "DOWN":
        return "down", "down"
    if flags & n.NODE_FLAG_COMPLETING and base not in _DRAINING_STATES:
        return "completing", "comp"
    if base == "IDLE":
        if flags & n.NODE_FLAG_MAINTENANCE:
            return "maint", "maint"
        if flags & n.NODE_FLAG_RESERVED:
            return "reserved", "resv"
        if flags & n.NODE_FLAG_PLANNED:
            return "planned", "plnd"
        if flags & n.NODE_FLAG_BLOCKED:
            return "blocked", "blocked"
    return {
        "UNKNOWN": ("unknown", "unk"),
        "IDLE": ("idle", "idle"),
        "ALLOCATED": ("allocated", "alloc"),
        "ERROR": ("error", "err"),
        "MIXED": ("mixed", "mix"),
        "FUTURE": ("future", "futr"),
    }[base]


_SUFFIXES = (
    ("NOT_RESPONDING", "*"),
    ("POWERING_DOWN", "%"),
    ("POWER_DOWN", "!"),
    ("POWERED_DOWN", "~"),
    ("POWERING_UP", "#"),
    ("MAINTENANCE", "$"),
    ("REBOOT_ISSUED", "^"),
    ("REBOOT_REQUESTED", "@"),
    ("PLANNED", "-"),
)


def _suffix(long_word: str, flags: int) -> str:
    for name, mark in _SUFFIXES:
        if flags & NODE_FLAG[name]:
            if long_word in ("planned", "maint", "draining", "drained") and mark in "-$":
                continue
            return mark
    return ""


# What `sinfo -t` takes beyond the flags' names; `drained` and `draining` are combinations.
NODE_STATE_ALIASES = {
    "alloc": "allocated",
    "comp": "completing",
    "drng": "draining",
    "failg": "failing",
    "futr": "future",
    "maint": "maintenance",
    "mix": "mixed",
    "no_respond": "not_responding",
    "plnd": "planned",
    "power_down": "power_down",
    "resv": "reserved",
    "unk": "unknown",
    "reboot": "reboot_requested",
    "err": "error",
    "block": "blocked",
}
NODE_STATE_LIST = (
    "unknown,down,idle,allocated,mixed,future,drained,draining,blocked,cloud,completing,drain,"
    "dynamic_future,dynamic_norm,external,invalid_reg,fail,maintenance,power_down,power_up,"
    "powered_down,reboot_requested,reboot_issued,reserved,not_responding,planned,powering_up,"
    "powering_down"
)

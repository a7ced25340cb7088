"""Names of job and node states as commands print and take them; plain tables, quick to import.

The numbers are those of `model.states`; a test holds the two together.
"""

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
    (1 << 15, "COMPLETING", "CG"),
    (1 << 23, "STAGE_OUT", "SO"),
    (1 << 14, "CONFIGURING", "CF"),
    (1 << 24, "EXPEDITING", "EX"),
    (1 << 13, "RESIZING", "RS"),
    (1 << 10, "REQUEUED", "RQ"),
    (1 << 20, "REQUEUE_FED", "RF"),
    (1 << 11, "REQUEUE_HOLD", "RH"),
    (1 << 12, "SPECIAL_EXIT", "SE"),
    (1 << 16, "STOPPED", "ST"),
    (1 << 19, "REVOKED", "RV"),
    (1 << 21, "RESV_DEL_HOLD", "RD"),
    (1 << 22, "SIGNALING", "SI"),
)
# The order of the list that squeue prints after a bad state.
_LISTED_FLAGS = (
    "COMPLETING CONFIGURING EXPEDITING RESIZING RESV_DEL_HOLD REQUEUED REQUEUE_FED REQUEUE_HOLD "
    "REVOKED SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED"
)

NODE_STATES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
NODE_FLAGS = (
    (1 << 4, "EXTERNAL"),
    (1 << 5, "RESERVED"),
    (1 << 6, "UNDRAIN"),
    (1 << 7, "CLOUD"),
    (1 << 8, "RESUME"),
    (1 << 9, "DRAIN"),
    (1 << 10, "COMPLETING"),
    (1 << 11, "NOT_RESPONDING"),
    (1 << 12, "POWERED_DOWN"),
    (1 << 13, "FAIL"),
    (1 << 14, "POWERING_UP"),
    (1 << 15, "MAINTENANCE"),
    (1 << 16, "REBOOT_REQUESTED"),
    (1 << 17, "REBOOT_CANCEL"),
    (1 << 18, "POWERING_DOWN"),
    (1 << 19, "DYNAMIC_FUTURE"),
    (1 << 20, "REBOOT_ISSUED"),
    (1 << 21, "PLANNED"),
    (1 << 22, "INVALID_REG"),
    (1 << 23, "POWER_DOWN"),
    (1 << 24, "POWER_UP"),
    (1 << 25, "POWER_DRAIN"),
    (1 << 26, "DYNAMIC_NORM"),
    (1 << 27, "BLOCKED"),
)
NODE_FLAG = {name: bit for bit, name in NODE_FLAGS}


def job_state(state: int, flags: int) -> str:
    """Return a job's state in one word."""
    if flags:
        for bit, name, _ in JOB_FLAGS:
            if flags & bit:
                return name
    return JOB_STATES[state][0]


def job_state_compact(state: int, flags: int) -> str:
    """Return a job's state in two or three letters."""
    if flags:
        for bit, _, compact in JOB_FLAGS:
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
    planned = NODE_FLAG["PLANNED"] if is_planned else 0
    return flags | planned | (NODE_FLAG["BLOCKED"] if is_blocked else 0)


def node_state_full(state: int, flags: int) -> str:
    """Return `BASE+FLAG+FLAG` as scontrol prints it."""
    words = [NODE_STATES[state]]
    words += [name for bit, name in NODE_FLAGS if flags & bit]
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
    is_busy = base in _DRAINING_STATES or flags & NODE_FLAG["COMPLETING"]
    if flags & NODE_FLAG["INVALID_REG"]:
        return "inval", "inval"
    if flags & NODE_FLAG["FAIL"]:
        if is_busy:
            return "failing", "failg"
        return "fail", "fail"
    if flags & NODE_FLAG["DRAIN"] and base not in ("UNKNOWN",):
        if is_busy:
            return "draining", "drng"
        return "drained", "drain"
    if flags & NODE_FLAG["DRAIN"]:
        return "drained", "drain"
    if base == "DOWN":
        return "down", "down"
    if flags & NODE_FLAG["COMPLETING"] and base not in _DRAINING_STATES:
        return "completing", "comp"
    if base == "IDLE":
        if flags & NODE_FLAG["MAINTENANCE"]:
            return "maint", "maint"
        if flags & NODE_FLAG["RESERVED"]:
            return "reserved", "resv"
        if flags & NODE_FLAG["PLANNED"]:
            return "planned", "plnd"
        if flags & NODE_FLAG["BLOCKED"]:
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

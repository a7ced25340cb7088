"""Slurm's numbers: marks, times, steps, states, and the bits of requests, orders and answers.

Plain integers without imports, so that a command, a daemon and the core may all have them from
here; `tests/base/test_numbers.py` finds one that is written a second time. Error numbers are in
`error_numbers`.

Source: the values are Slurm 22.05's where Slurm has the thing; the bits of requests, orders and
answers are ours.
"""

# Microseconds; every time of ours is counted in them.
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

# Marks in fields of 16 and of 32 bits: "not given" and "without limit".
NO_VAL16 = 2**16 - 2
NO_VAL = 2**32 - 2
INFINITE = 2**32 - 1
NO_UID = 2**32 - 1  # (uid_t) -1: no user has it
MOST_WEIGHT = 4294967280  # of a node, in scontrol update

# Steps that srun does not make have fixed numbers above every other.
MAX_NORMAL_STEP_ID = 4294967280
STEP_INTERACTIVE = 4294967290
STEP_BATCH = 4294967291
STEP_EXTERN = 4294967292
STEP_PENDING = 4294967293

# States of a job; from JOB_COMPLETED on it is over.
JOB_PENDING = 0
JOB_RUNNING = 1
JOB_SUSPENDED = 2
JOB_COMPLETED = 3
JOB_CANCELLED = 4
JOB_FAILED = 5
JOB_TIMEOUT = 6
JOB_NODE_FAIL = 7
JOB_PREEMPTED = 8
JOB_BOOT_FAIL = 9
JOB_DEADLINE = 10
JOB_OUT_OF_MEMORY = 11

# Flags beside a job's state.
JOB_FLAG_LAUNCH_FAILED = 1 << 8
JOB_FLAG_GETENV_FAILED = 1 << 9
JOB_FLAG_REQUEUED = 1 << 10
JOB_FLAG_REQUEUE_HOLD = 1 << 11
JOB_FLAG_SPECIAL_EXIT = 1 << 12
JOB_FLAG_RESIZING = 1 << 13
JOB_FLAG_CONFIGURING = 1 << 14
JOB_FLAG_COMPLETING = 1 << 15
JOB_FLAG_STOPPED = 1 << 16
JOB_FLAG_RECONFIG_FAIL = 1 << 17
JOB_FLAG_POWER_UP_NODE = 1 << 18
JOB_FLAG_REVOKED = 1 << 19
JOB_FLAG_REQUEUE_FED = 1 << 20
JOB_FLAG_RESV_DEL_HOLD = 1 << 21
JOB_FLAG_SIGNALING = 1 << 22
JOB_FLAG_STAGE_OUT = 1 << 23
JOB_FLAG_EXPEDITING = 1 << 24

# States of a node.
NODE_UNKNOWN = 0
NODE_DOWN = 1
NODE_IDLE = 2
NODE_ALLOCATED = 3
NODE_ERROR = 4
NODE_MIXED = 5
NODE_FUTURE = 6

# Flags beside a node's state.
NODE_FLAG_EXTERNAL = 1 << 4
NODE_FLAG_RESERVED = 1 << 5
NODE_FLAG_UNDRAIN = 1 << 6
NODE_FLAG_CLOUD = 1 << 7
NODE_FLAG_RESUME = 1 << 8
NODE_FLAG_DRAIN = 1 << 9
NODE_FLAG_COMPLETING = 1 << 10
NODE_FLAG_NOT_RESPONDING = 1 << 11
NODE_FLAG_POWERED_DOWN = 1 << 12
NODE_FLAG_FAIL = 1 << 13
NODE_FLAG_POWERING_UP = 1 << 14
NODE_FLAG_MAINTENANCE = 1 << 15
NODE_FLAG_REBOOT_REQUESTED = 1 << 16
NODE_FLAG_REBOOT_CANCEL = 1 << 17
NODE_FLAG_POWERING_DOWN = 1 << 18
NODE_FLAG_DYNAMIC_FUTURE = 1 << 19
NODE_FLAG_REBOOT_ISSUED = 1 << 20
NODE_FLAG_PLANNED = 1 << 21
NODE_FLAG_INVALID_REG = 1 << 22
NODE_FLAG_POWER_DOWN = 1 << 23
NODE_FLAG_POWER_UP = 1 << 24
NODE_FLAG_POWER_DRAIN = 1 << 25
NODE_FLAG_DYNAMIC_NORM = 1 << 26
NODE_FLAG_BLOCKED = 1 << 27

# Bits of JobRequest.flags: options that are only on or off.
REQ_HOLD = 1 << 0
REQ_REQUEUE = 1 << 1  # --requeue given
REQ_NO_REQUEUE = 1 << 2  # --no-requeue given
REQ_NO_KILL = 1 << 3
REQ_OVERSUBSCRIBE = 1 << 4
REQ_EXCLUSIVE = 1 << 5  # --exclusive: whole nodes
REQ_EXCLUSIVE_USER = 1 << 6
REQ_EXCLUSIVE_MCS = 1 << 7
REQ_EXCLUSIVE_TOPO = 1 << 8
REQ_OVERCOMMIT = 1 << 9
REQ_CONTIGUOUS = 1 << 10
REQ_SPREAD = 1 << 11
REQ_USE_MIN_NODES = 1 << 12
REQ_REBOOT = 1 << 13
REQ_KILL_INVALID_DEP = 1 << 14  # --kill-on-invalid-dep=yes
REQ_KEEP_INVALID_DEP = 1 << 15  # --kill-on-invalid-dep=no
REQ_OPEN_APPEND = 1 << 16
REQ_OPEN_TRUNCATE = 1 << 17
REQ_GET_USER_ENV = 1 << 19
REQ_GRES_DISABLE_BIND = 1 << 20
REQ_GRES_ENFORCE_BIND = 1 << 21
REQ_GRES_ONE_TASK_SHARING = 1 << 22
REQ_NICE_SET = 1 << 23
REQ_INTERACTIVE = 1 << 25
REQ_EXPORT_NONE = 1 << 26
REQ_NTASKS_SET = 1 << 27  # -n was given, so SLURM_NTASKS is shown
REQ_MEM_SET = 1 << 28  # a memory option was given (0 then means all of the node)
REQ_NODES_SET = 1 << 30  # -N was given
REQ_SIGNAL_BATCH = 1 << 31  # --signal=B:
REQ_SIGNAL_RESV = 1 << 32  # --signal=R:
REQ_CONSOLIDATE_SEGMENTS = 1 << 33
REQ_SPREAD_SEGMENTS = 1 << 34
REQ_GRES_MANY_TASKS_SHARING = 1 << 35
REQ_NO_SPECIAL_CORES = 1 << 36  # --core-spec=0 or --thread-spec=0: the system's cores, too
# What the controller adds in its answers: which names were left to a default, and whether CPUs were
# counted exactly.
REQ_DEFAULT_ACCOUNT = 1 << 40
REQ_DEFAULT_PARTITION = 1 << 41
REQ_DEFAULT_QOS = 1 << 42
REQ_DEFAULT_WCKEY = 1 << 43
REQ_EXPEDITE = 1 << 45  # --requeue=expedite
REQ_STEPMGR = 1 << 46  # --stepmgr: its first node gives its steps their shares
REQ_CPUS_SET = 1 << 44

# Bits of JobRequest.mail_type.
MAIL_BEGIN = 1 << 0
MAIL_END = 1 << 1
MAIL_FAIL = 1 << 2
MAIL_REQUEUE = 1 << 3
MAIL_TIME_LIMIT = 1 << 4
MAIL_TIME_90 = 1 << 5
MAIL_TIME_80 = 1 << 6
MAIL_TIME_50 = 1 << 7
MAIL_STAGE_OUT = 1 << 8
MAIL_ARRAY_TASKS = 1 << 9
MAIL_INVALID_DEPEND = 1 << 10

# Bits of a step's request.
STEP_OVERLAP = 1 << 0
STEP_EXACT = 1 << 1
STEP_NO_KILL = 1 << 2
STEP_PTY = 1 << 4
STEP_MEM_ZERO = 1 << 5  # shares the job's memory
STEP_BESIDE_ALL = 1 << 6  # the interactive step: it has the first node and keeps none of it

# The jobs or steps that one request may name: about 20 ms of slurmctld's time.
MOST_IDS = 1 << 12

# The jobs of one page of a long list: some 4 MB with every field.
MOST_OF_A_PAGE = 1 << 12

# Bits of a query.
SHOW_ALL = 1 << 0  # hidden partitions and their jobs and nodes too
SHOW_DETAIL = 1 << 1  # every field, not only those of the daily formats
SHOW_FUTURE = 1 << 2  # FUTURE nodes too

# Bits of a cancellation: what a signal reaches.
CANCEL_BATCH = 1 << 0  # only the batch script
CANCEL_FULL = 1 << 1  # the script, its children and the steps
CANCEL_CRON = 1 << 2  # jobs of crontabs, too
CANCEL_VERBOSE = 1 << 3  # the reply names every job
CANCEL_HURRY = 1 << 4  # burst buffers are torn down without a stage-out

# Bits of an order to signal or end a job on a node.
SIGNAL_BATCH_ONLY = 1 << 0
SIGNAL_FULL = 1 << 1  # script, its children and steps
SIGNAL_STEPS_ONLY = 1 << 2
SIGNAL_TIME_LIMIT = 1 << 3  # say so in the job's stderr
SIGNAL_PREEMPTED = 1 << 4
SIGNAL_CANCELLED = 1 << 5
SIGNAL_NODE_FAIL = 1 << 6
SIGNAL_REQUEUED = 1 << 7
SIGNAL_RESERVATION = 1 << 8  # with SIGNAL_TIME_LIMIT: the limit was the reservation's end

MOST_OF_RING = 16  # nodes of a ring of topology/ring, as in Slurm

# Bits of a node's report that a step has ended there.
END_OUT_OF_MEMORY = 1 << 0  # the kernel (or OverMemoryKill) killed a task for its memory
END_CLEAN = 1 << 1  # nothing of the job is left on this node
END_LOST = 1 << 2  # the supervisor vanished; the status is made up
END_KILLED = 1 << 3  # by an order of ours: time limit, cancel
END_OVER_MEMORY = 1 << 4  # OverMemoryKill ended it
OOM_STATUS = 125  # wait status of a task or step that the kernel killed for its memory

# Signals of Linux, the same on every machine we run on; importing `signal` takes a millisecond.
SIGHUP = 1
SIGINT = 2
SIGQUIT = 3
SIGKILL = 9
SIGUSR1 = 10
SIGUSR2 = 12
SIGPIPE = 13
SIGTERM = 15
SIGCHLD = 17
SIGCONT = 18
SIGSTOP = 19
SIGTTIN = 21
SIGTTOU = 22
SIGWINCH = 28

RPC_VERSION = 11776
"""Slurm's number of the protocol of 26.11, as `sacctmgr list cluster` shows it."""

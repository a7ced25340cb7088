"""Names of states and reasons as Slurm shows them; states take their numbers from `base`."""

from enum import IntEnum

from pyslurm_ng.base import numbers as n


class JobState(IntEnum):
    """Base state of a job; `JobFlag` has the flags beside it."""

    PENDING = n.JOB_PENDING
    RUNNING = n.JOB_RUNNING
    SUSPENDED = n.JOB_SUSPENDED
    COMPLETED = n.JOB_COMPLETED
    CANCELLED = n.JOB_CANCELLED
    FAILED = n.JOB_FAILED
    TIMEOUT = n.JOB_TIMEOUT
    NODE_FAIL = n.JOB_NODE_FAIL
    PREEMPTED = n.JOB_PREEMPTED
    BOOT_FAIL = n.JOB_BOOT_FAIL
    DEADLINE = n.JOB_DEADLINE
    OUT_OF_MEMORY = n.JOB_OUT_OF_MEMORY


class JobFlag(IntEnum):
    """Flags beside the base state; bit values are those of Slurm's state word.

    Not an IntFlag: its operators are Python and run for every job of every pass.
    """

    NONE = 0
    LAUNCH_FAILED = n.JOB_FLAG_LAUNCH_FAILED
    GETENV_FAILED = n.JOB_FLAG_GETENV_FAILED
    REQUEUED = n.JOB_FLAG_REQUEUED
    REQUEUE_HOLD = n.JOB_FLAG_REQUEUE_HOLD
    SPECIAL_EXIT = n.JOB_FLAG_SPECIAL_EXIT
    RESIZING = n.JOB_FLAG_RESIZING
    CONFIGURING = n.JOB_FLAG_CONFIGURING
    COMPLETING = n.JOB_FLAG_COMPLETING
    STOPPED = n.JOB_FLAG_STOPPED
    RECONFIG_FAIL = n.JOB_FLAG_RECONFIG_FAIL
    POWER_UP_NODE = n.JOB_FLAG_POWER_UP_NODE
    REVOKED = n.JOB_FLAG_REVOKED
    REQUEUE_FED = n.JOB_FLAG_REQUEUE_FED
    RESV_DEL_HOLD = n.JOB_FLAG_RESV_DEL_HOLD
    SIGNALING = n.JOB_FLAG_SIGNALING
    STAGE_OUT = n.JOB_FLAG_STAGE_OUT
    EXPEDITING = n.JOB_FLAG_EXPEDITING


TERMINAL_STATES = frozenset(state for state in JobState if state >= JobState.COMPLETED)


class NodeState(IntEnum):
    """Base state of a node. ALLOCATED and MIXED are derived from its allocations."""

    UNKNOWN = n.NODE_UNKNOWN
    DOWN = n.NODE_DOWN
    IDLE = n.NODE_IDLE
    ALLOCATED = n.NODE_ALLOCATED
    ERROR = n.NODE_ERROR
    MIXED = n.NODE_MIXED
    FUTURE = n.NODE_FUTURE


class NodeFlag(IntEnum):
    """Flags beside a node's base state; bit values are Slurm's."""

    NONE = 0
    EXTERNAL = n.NODE_FLAG_EXTERNAL
    RESERVED = n.NODE_FLAG_RESERVED
    UNDRAIN = n.NODE_FLAG_UNDRAIN
    CLOUD = n.NODE_FLAG_CLOUD
    RESUME = n.NODE_FLAG_RESUME
    DRAIN = n.NODE_FLAG_DRAIN
    COMPLETING = n.NODE_FLAG_COMPLETING
    NOT_RESPONDING = n.NODE_FLAG_NOT_RESPONDING
    POWERED_DOWN = n.NODE_FLAG_POWERED_DOWN
    FAIL = n.NODE_FLAG_FAIL
    POWERING_UP = n.NODE_FLAG_POWERING_UP
    MAINTENANCE = n.NODE_FLAG_MAINTENANCE
    REBOOT_REQUESTED = n.NODE_FLAG_REBOOT_REQUESTED
    REBOOT_CANCEL = n.NODE_FLAG_REBOOT_CANCEL
    POWERING_DOWN = n.NODE_FLAG_POWERING_DOWN
    DYNAMIC_FUTURE = n.NODE_FLAG_DYNAMIC_FUTURE
    REBOOT_ISSUED = n.NODE_FLAG_REBOOT_ISSUED
    PLANNED = n.NODE_FLAG_PLANNED
    INVALID_REG = n.NODE_FLAG_INVALID_REG
    POWER_DOWN = n.NODE_FLAG_POWER_DOWN
    POWER_UP = n.NODE_FLAG_POWER_UP
    POWER_DRAIN = n.NODE_FLAG_POWER_DRAIN
    DYNAMIC_NORM = n.NODE_FLAG_DYNAMIC_NORM
    BLOCKED = n.NODE_FLAG_BLOCKED


class Reason(IntEnum):
    """Why a job waits or ended; the names are what `squeue` prints."""

    NONE = 0
    Priority = 1
    Dependency = 2
    Resources = 3
    PartitionNodeLimit = 4
    PartitionTimeLimit = 5
    PartitionDown = 6
    PartitionInactive = 7
    JobHeldAdmin = 8
    BeginTime = 9
    Licenses = 10
    AssociationJobLimit = 11
    AssociationResourceLimit = 12
    AssociationTimeLimit = 13
    Reservation = 14
    ReqNodeNotAvail = 15
    JobHeldUser = 16
    NvidiaImexChannels = 17
    SchedDefer = 18
    NodeDown = 20
    BadConstraints = 21
    SystemFailure = 22
    JobLaunchFailure = 23
    NonZeroExitCode = 24
    TimeLimit = 25
    InactiveLimit = 26
    InvalidAccount = 27
    InvalidQOS = 28
    QOSUsageThreshold = 29
    QOSJobLimit = 30
    QOSResourceLimit = 31
    QOSTimeLimit = 32
    RaisedSignal = 33
    Cleaning = 35
    Prolog = 36
    QOSNotAllowed = 37
    AccountNotAllowed = 38
    DependencyNeverSatisfied = 39
    QOSGrpCpuLimit = 40
    QOSGrpCPUMinutesLimit = 41
    QOSGrpCPURunMinutesLimit = 42
    QOSGrpJobsLimit = 43
    QOSGrpMemLimit = 44
    QOSGrpNodeLimit = 45
    QOSGrpSubmitJobsLimit = 46
    QOSGrpWallLimit = 47
    QOSMaxCpuPerJobLimit = 48
    QOSMaxCpuMinutesPerJobLimit = 49
    QOSMaxNodePerJobLimit = 50
    QOSMaxWallDurationPerJobLimit = 51
    QOSMaxCpuPerUserLimit = 52
    QOSMaxJobsPerUserLimit = 53
    QOSMaxNodePerUserLimit = 54
    QOSMaxSubmitJobPerUserLimit = 55
    QOSMinCpuNotSatisfied = 56
    AssocGrpCpuLimit = 57
    AssocGrpCPUMinutesLimit = 58
    AssocGrpCPURunMinutesLimit = 59
    AssocGrpJobsLimit = 60
    AssocGrpMemLimit = 61
    AssocGrpNodeLimit = 62
    AssocGrpSubmitJobsLimit = 63
    AssocGrpWallLimit = 64
    AssocMaxJobsLimit = 65
    AssocMaxCpuPerJobLimit = 66
    AssocMaxCpuMinutesPerJobLimit = 67
    AssocMaxNodePerJobLimit = 68
    AssocMaxWallDurationPerJobLimit = 69
    AssocMaxSubmitJobLimit = 70
    JobHoldMaxRequeue = 71
    JobArrayTaskLimit = 72
    BurstBufferResources = 73
    BurstBufferStageIn = 74
    BurstBufferOperation = 75
    AssocGrpUnknown = 78
    AssocGrpUnknownMinutes = 79
    AssocGrpUnknownRunMinutes = 80
    AssocMaxUnknownPerJob = 81
    AssocMaxUnknownPerNode = 82
    AssocMaxUnknownMinutesPerJob = 83
    AssocMaxCpuPerNode = 84
    AssocGrpMemMinutes = 85
    AssocGrpMemRunMinutes = 86
    AssocMaxMemPerJob = 87
    AssocMaxMemPerNode = 88
    AssocMaxMemMinutesPerJob = 89
    AssocGrpNodeMinutes = 90
    AssocGrpNodeRunMinutes = 91
    AssocMaxNodeMinutesPerJob = 92
    AssocGrpEnergy = 93
    AssocGrpEnergyMinutes = 94
    AssocGrpEnergyRunMinutes = 95
    AssocMaxEnergyPerJob = 96
    AssocMaxEnergyPerNode = 97
    AssocMaxEnergyMinutesPerJob = 98
    AssocGrpGRES = 99
    AssocGrpGRESMinutes = 100
    AssocGrpGRESRunMinutes = 101
    AssocMaxGRESPerJob = 102
    AssocMaxGRESPerNode = 103
    AssocMaxGRESMinutesPerJob = 104
    AssocGrpLicense = 105
    AssocGrpLicenseMinutes = 106
    AssocGrpLicenseRunMinutes = 107
    AssocMaxLicensePerJob = 108
    AssocMaxLicenseMinutesPerJob = 109
    AssocGrpBB = 110
    AssocGrpBBMinutes = 111
    AssocGrpBBRunMinutes = 112
    AssocMaxBBPerJob = 113
    AssocMaxBBPerNode = 114
    AssocMaxBBMinutesPerJob = 115
    QOSGrpUnknown = 116
    QOSGrpUnknownMinutes = 117
    QOSGrpUnknownRunMinutes = 118
    QOSMaxUnknownPerJob = 119
    QOSMaxUnknownPerNode = 120
    QOSMaxUnknownPerUser = 121
    QOSMaxUnknownMinutesPerJob = 122
    QOSMinUnknown = 123
    QOSMaxCpuPerNode = 124
    QOSGrpMemoryMinutes = 125
    QOSGrpMemoryRunMinutes = 126
    QOSMaxMemoryMinutesPerJob = 127
    QOSMaxMemoryPerJob = 128
    QOSMaxMemoryPerNode = 129
    QOSMaxMemoryPerUser = 130
    QOSMinMemory = 131
    QOSGrpEnergy = 132
    QOSGrpEnergyMinutes = 133
    QOSGrpEnergyRunMinutes = 134
    QOSMaxEnergyPerJob = 135
    QOSMaxEnergyPerNode = 136
    QOSMaxEnergyPerUser = 137
    QOSMaxEnergyMinutesPerJob = 138
    QOSMinEnergy = 139
    QOSGrpNodeMinutes = 140
    QOSGrpNodeRunMinutes = 141
    QOSMaxNodeMinutesPerJob = 142
    QOSMinNode = 143
    QOSGrpGRES = 144
    QOSGrpGRESMinutes = 145
    QOSGrpGRESRunMinutes = 146
    QOSMaxGRESPerJob = 147
    QOSMaxGRESPerNode = 148
    QOSMaxGRESPerUser = 149
    QOSMaxGRESMinutesPerJob = 150
    QOSMinGRES = 151
    QOSGrpLicense = 152
    QOSGrpLicenseMinutes = 153
    QOSGrpLicenseRunMinutes = 154
    QOSMaxLicensePerJob = 155
    QOSMaxLicensePerUser = 156
    QOSMaxLicenseMinutesPerJob = 157
    QOSMinLicense = 158
    QOSGrpBB = 159
    QOSGrpBBMinutes = 160
    QOSGrpBBRunMinutes = 161
    QOSMaxBBPerJob = 162
    QOSMaxBBPerNode = 163
    QOSMaxBBPerUser = 164
    QOSMinBB = 166
    DeadLine = 167
    MaxBBPerAccount = 168
    MaxCpuPerAccount = 169
    MaxEnergyPerAccount = 170
    MaxGRESPerAccount = 171
    MaxNodePerAccount = 172
    MaxLicensePerAccount = 173
    MaxMemoryPerAccount = 174
    MaxUnknownPerAccount = 175
    MaxJobsPerAccount = 176
    MaxSubmitJobsPerAccount = 177
    PartitionConfig = 178
    AccountingPolicy = 179
    FedJobLock = 180
    OutOfMemory = 181
    MaxMemPerLimit = 182
    AssocGrpBilling = 183
    AssocGrpBillingMinutes = 184
    AssocGrpBillingRunMinutes = 185
    AssocMaxBillingPerJob = 186
    AssocMaxBillingPerNode = 187
    AssocMaxBillingMinutesPerJob = 188
    QOSGrpBilling = 189
    QOSGrpBillingMinutes = 190
    QOSGrpBillingRunMinutes = 191
    QOSMaxBillingPerJob = 192
    QOSMaxBillingPerNode = 193
    QOSMaxBillingPerUser = 194
    QOSMaxBillingMinutesPerJob = 195
    MaxBillingPerAccount = 196
    QOSMinBilling = 197
    ReservationDeleted = 198
    ReservationInvalid = 199
    Constraints = 200
    MaxBBRunMinsPerAccount = 201
    MaxBillingRunMinsPerAccount = 202
    MaxCpuRunMinsPerAccount = 203
    MaxEnergyRunMinsPerAccount = 204
    MaxGRESRunMinsPerAccount = 205
    MaxNodeRunMinsPerAccount = 206
    MaxLicenseRunMinsPerAccount = 207
    MaxMemoryRunMinsPerAccount = 208
    MaxUnknownRunMinsPerAccount = 209
    MaxBBRunMinsPerUser = 210
    MaxBillingRunMinsPerUser = 211
    MaxCpuRunMinsPerUser = 212
    MaxEnergyRunMinsPerUser = 213
    MaxGRESRunMinsPerUser = 214
    MaxNodeRunMinsPerUser = 215
    MaxLicenseRunMinsPerUser = 216
    MaxMemoryRunMinsPerUser = 217
    MaxUnknownRunMinsPerUser = 218
    MaxPoweredUpNodes = 219
    MpiPortsBusy = 220
    No_suitable_topology_unit_found = 221


# A listing asks for each job: by way of the enumeration it took a tenth of the time.
_REASON_TEXTS: dict[int, str] = {**{reason: reason.name for reason in Reason}, Reason.NONE: "None"}


def reason_text(reason: int) -> str:
    """Return the word for a reason, `None` for none."""
    return _REASON_TEXTS[reason]

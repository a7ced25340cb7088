"""State and reason names, their numbers and short forms, as Slurm shows them."""

from enum import IntEnum


class JobState(IntEnum):
    """Base state of a job; `JobFlag` adds what else is true of it."""

    PENDING = 0
    RUNNING = 1
    SUSPENDED = 2
    COMPLETED = 3
    CANCELLED = 4
    FAILED = 5
    TIMEOUT = 6
    NODE_FAIL = 7
    PREEMPTED = 8
    BOOT_FAIL = 9
    DEADLINE = 10
    OUT_OF_MEMORY = 11


class JobFlag(IntEnum):
    """Flags beside the base state; bit values are those of Slurm's state word.

    Not an IntFlag: its operators are Python and run for every job of every pass.
    """

    NONE = 0
    LAUNCH_FAILED = 1 << 8
    GETENV_FAILED = 1 << 9
    REQUEUED = 1 << 10
    REQUEUE_HOLD = 1 << 11
    SPECIAL_EXIT = 1 << 12
    RESIZING = 1 << 13
    CONFIGURING = 1 << 14
    COMPLETING = 1 << 15
    STOPPED = 1 << 16
    RECONFIG_FAIL = 1 << 17
    POWER_UP_NODE = 1 << 18
    REVOKED = 1 << 19
    REQUEUE_FED = 1 << 20
    RESV_DEL_HOLD = 1 << 21
    SIGNALING = 1 << 22
    STAGE_OUT = 1 << 23
    EXPEDITING = 1 << 24


TERMINAL_STATES = frozenset(state for state in JobState if state >= JobState.COMPLETED)


class NodeState(IntEnum):
    """Base state of a node. ALLOCATED and MIXED are derived from its allocations."""

    UNKNOWN = 0
    DOWN = 1
    IDLE = 2
    ALLOCATED = 3
    ERROR = 4
    MIXED = 5
    FUTURE = 6


class NodeFlag(IntEnum):
    """Flags beside a node's base state; bit values are Slurm's."""

    NONE = 0
    EXTERNAL = 1 << 4
    RESERVED = 1 << 5
    UNDRAIN = 1 << 6
    CLOUD = 1 << 7
    RESUME = 1 << 8
    DRAIN = 1 << 9
    COMPLETING = 1 << 10
    NOT_RESPONDING = 1 << 11
    POWERED_DOWN = 1 << 12
    FAIL = 1 << 13
    POWERING_UP = 1 << 14
    MAINTENANCE = 1 << 15
    REBOOT_REQUESTED = 1 << 16
    REBOOT_CANCEL = 1 << 17
    POWERING_DOWN = 1 << 18
    DYNAMIC_FUTURE = 1 << 19
    REBOOT_ISSUED = 1 << 20
    PLANNED = 1 << 21
    INVALID_REG = 1 << 22
    POWER_DOWN = 1 << 23
    POWER_UP = 1 << 24
    POWER_DRAIN = 1 << 25
    DYNAMIC_NORM = 1 << 26
    BLOCKED = 1 << 27


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


def reason_text(reason: int) -> str:
    """Return the word for a reason, `None` for none."""
    return "None" if reason == Reason.NONE else Reason(reason).name

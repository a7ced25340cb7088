"""The keys of slurm.conf: what each does here.

A feature that begins to use a key moves its name here, and the compatibility table follows. Words
of list parameters are in `words`.
"""

from __future__ import annotations

from pyslurm_ng.conf.effects.key_tables import Keys, named

_NO_ACTIONS = "ResumeProgram and SuspendProgram power nodes up and down"
_NO_COMPLETION_DATABASE = "only jobcomp/mysql uses it, which is refused"
_NO_REST = "the options of slurmrestd are on its command line"
_NO_SITE_FACTOR = "plugins cannot be loaded, and the site factor is what scontrol sets"
_NO_TLS = "connections are signed, not encrypted; leave the key out to run without encryption"
_OWN_PARSERS = "JSON and HTTP are read by built-in parsers"

CLUSTER = Keys(
    same=named("""
        AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost
        AccountingStorageHost AccountingStorageParameters
        AccountingStoragePort AccountingStorageTRES
        AccountingStorageType AccountingStoreFlags AcctGatherEnergyType AcctGatherFilesystemType
        AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType
        AllowSpecResourcesUsage AuthAltParameters
        AuthAltTypes AuthInfo AuthType
        BcastExclude BcastParameters CliFilterParameters CliFilterPlugins
        ClusterName CompleteWait CpuFreqDef CpuFreqGovernors DefCpuPerGPU
        DefMemPerCPU DefMemPerGPU DefMemPerNode DependencyParameters DisableRootJobs
        EnforcePartLimits Epilog EpilogSlurmctld EpilogTimeout FairShareDampeningFactor
        FirstJobId GpuFreqDef GresTypes
        GroupUpdateTime HealthCheckInterval HealthCheckNodeState HealthCheckProgram
        HealthCheckTimeout InactiveLimit InteractiveStepOptions JobAcctGatherFrequency
        JobAcctGatherParams JobAcctGatherType JobCompLoc JobCompType JobFileAppend JobRequeue
        JobSubmitPlugins
        KillOnBadExit KillWait LaunchParameters LicenseParameters Licenses
        LogTimeFormat MailDomain MailProg
        MaxArraySize MaxBatchRequeue MaxJobId MaxMemPerCPU MaxMemPerNode MaxNodeCount
        MaxStepCount
        MaxTasksPerNode MCSParameters MCSPlugin
        MessageTimeout MetricsAuthUsers MetricsParameters MetricsType
        MinJobAge MpiParams OverTimeLimit PrEpPlugins PreemptExemptTime
        PreemptMode PreemptParameters PreemptType PriorityCalcPeriod
        PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityType
        PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc
        PriorityWeightFairshare PriorityWeightJobSize
        PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType
        Prolog PrologEpilogTimeout PrologFlags PrologSlurmctld PrologTimeout PropagatePrioProcess
        PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram RequeueExit
        RequeueExitHold
        ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout
        ResvEpilog ResvOverRun ResvProlog ReturnToService SchedulerParameters SchedulerTimeSlice
        ScronParameters SchedulerType SelectType SelectTypeParameters SlurmSchedLogFile
        SlurmSchedLogLevel SlurmUser SlurmctldAddr SlurmctldDebug SlurmctldLogFile
        SlurmctldParameters SlurmctldPidFile SlurmctldPort SlurmctldSyslogDebug SlurmdDebug
        SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug
        SlurmdTimeout SrunEpilog SrunPortRange SrunProlog StateSaveLocation
        SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime
        SuspendTimeout TaskEpilog TaskPlugin
        TaskPluginParam TaskProlog TmpFS TopologyPlugin TrackWCKey UnkillableStepProgram
        UnkillableStepTimeout UsePAM WaitTime X11Parameters
    """),
    differs={
        "BurstBufferType": "each function of burst_buffer.lua has a process and a time limit",
        "BatchStartTimeout": "a node that has not taken a script by then is asked what it runs; "
        "only a job that it does not know is requeued, or ends with NODE_FAIL",
        "DebugFlags": "slurmctld logs the lines of a flag, not slurmd; they are ours",
        "FederationParameters": "jobs are of one cluster; lists of clusters come one below the "
        "other",
        "CredType": "the credentials of jobs are signed as AuthType says",
        "MaxJobCount": "one user may have nine tenths of the jobs that others leave free, "
        "operators may have all",
        "NamespaceType": "jobs get private directories, no user or pid namespace; the whole "
        "supervisor of a step is inside",
        "MpiDefault": "cray_shasta is refused; pmix_vN asks for that version of its library",
        "PlugStackConfig": "plugins are Python files; C libraries are refused at start where "
        "they are required, and left out where they are optional",
        "SlurmctldHost": "the first one controls; there is no backup controller yet",
    },
    accepted={
        "AccountingStoragePass": "slurmctld and slurmdbd share the key or munge of the cluster",
        "AccountingStorageUser": "Slurm does not use it with slurmdbd, either",
        "DataParserParameters": "the newest version, unless --json names another",
        "EpilogMsgTime": "nodes tell slurmctld of the ends of epilogs at once",
        "HashPlugin": "messages are signed by HMAC with SHA-256",
        "HttpParserType": _OWN_PARSERS,
        "JobCompHost": _NO_COMPLETION_DATABASE,
        "JobCompParams": "scripts and comments are not sent, and jobcomp/kafka is refused",
        "JobCompPass": _NO_COMPLETION_DATABASE,
        "JobCompPassScript": _NO_COMPLETION_DATABASE,
        "JobCompPort": _NO_COMPLETION_DATABASE,
        "JobCompUser": _NO_COMPLETION_DATABASE,
        "PluginDir": "everything is built in",
        "PrEpParameters": "no plugin takes any",
        "PriorityParameters": _NO_SITE_FACTOR,
        "PrioritySiteFactorParameters": _NO_SITE_FACTOR,
        "PrioritySiteFactorPlugin": _NO_SITE_FACTOR,
        "SerializerParameters": _OWN_PARSERS,
        "SerializerPlugins": _OWN_PARSERS,
        "SlurmctldPrimaryOffProg": "there is no backup controller yet",
        "SlurmctldPrimaryOnProg": "there is no backup controller yet",
        "SlurmctldTimeout": "there is no backup controller yet",
        "SlurmdUser": "slurmd runs as the user that starts it",
        "SlurmrestdHttpAuthParameters": _NO_REST,
        "SlurmrestdParameters": _NO_REST,
        "TreeWidth": "slurmctld and srun talk with each node themselves: ADR 0108",
        "UrlParserType": _OWN_PARSERS,
    },
    refused={
        "TLSType": _NO_TLS,
        "VSizeFactor": "virtual memory would not be limited; 0 is allowed",
    },
)

NODE = Keys(
    same=named("""
        NodeName NodeHostname NodeAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs
        CpuSpecList Features Gres MemSpecLimit Port RealMemory Reason RestrictedCoresPerGPU
        Sockets SocketsPerBoard SuspendTime ThreadsPerCore TmpDisk Topology Weight
    """),
    differs={
        "State": "a FUTURE node is in service when its slurmd registers",
    },
    accepted={
        "BcastAddr": "files are sent to the usual address",
        "Parameters": "SlurmdParameters hold for every node",
    },
)

PARTITION = Keys(
    same=named("""
        PartitionName AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default
        DefaultTime DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode DenyAccounts DenyQos
        DisableRootJobs Exclusive ExclusiveUser ExclusiveTopo GraceTime Hidden LLN MaxCPUsPerNode
        MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe
        OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor PriorityTier QOS ReqResv
        ResumeTimeout RootOnly SelectTypeParameters State SuspendTime SuspendTimeout Topology
        TRESBillingWeights
    """)
)

NODE_SET = Keys(same=named("NodeSet Feature Nodes"))
DOWN_NODES = Keys(same=named("DownNodes Reason State"))
POWER_ACTION = Keys(
    same=frozenset(),
    accepted={"Location": _NO_ACTIONS, "PowerAction": _NO_ACTIONS, "Program": _NO_ACTIONS},
)

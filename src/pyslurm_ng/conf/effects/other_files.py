"""The keys of the files beside slurm.conf: what each does here."""

from __future__ import annotations

from pyslurm_ng.conf.effects.key_tables import Keys, named

_NO_SYSTEMD = "groups are made below the mount point without asking systemd"

CGROUP = Keys(
    same=named("""
        CgroupMountpoint CgroupPlugin AllowedRAMSpace AllowedSwapSpace ConstrainCores
        ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace MaxRAMPercent MaxSwapPercent
        MemorySwappiness MinRAMSpace
    """),
    accepted={
        "CgroupJobIdPaths": "groups are always named by job ids",
        "CgroupSlice": _NO_SYSTEMD,
        "EnableControllers": "the controllers that are needed are always enabled",
        "IgnoreSystemd": _NO_SYSTEMD,
        "IgnoreSystemdOnFailure": _NO_SYSTEMD,
        "SignalChildrenProcesses": "signals for a step reach every process of it",
        "SystemdTimeout": _NO_SYSTEMD,
    },
)

_OWN_FILES = "files are lines of JSON, which Slurm cannot load"
SLURMDBD = Keys(
    same=named("""
        ArchiveDir ArchiveScript AuthAltParameters AuthAltTypes AuthInfo AuthType
        DbdAddr DbdBackupHost DbdHost DbdPort DebugLevel
        DebugLevelSyslog DefaultQOS DisableArchiveCommands DisableCoordDBD DisableRollups LogFile
        LogTimeFormat MaxPurgeLimit MaxQueryTimeRange Parameters PidFile PrivateData PurgeEventAfter
        PurgeJobAfter PurgeJobEnvAfter PurgeJobScriptAfter PurgeResvAfter PurgeStepAfter
        PurgeSuspendAfter PurgeTXNAfter PurgeUsageAfter SlurmUser StorageBackupHost StorageHost
        StorageLoc StorageParameters StoragePass StoragePassScript StoragePort StorageType
        StorageUser
    """),
    differs={
        **dict.fromkeys(
            named("""
                ArchiveEvents ArchiveJobEnv ArchiveJobScript ArchiveJobs ArchiveResvs ArchiveSteps
                ArchiveSuspend ArchiveTXN ArchiveUsage
            """),
            _OWN_FILES,
        ),
        "CommunicationParameters": "NoInAddrAny lets slurmdbd listen at DbdAddr alone; no other "
        "word has an effect",
    },
    accepted={
        "TrackWCKey": "keys are tracked for each cluster as its slurm.conf says",
        "AllowNoDefAcct": "users always have a default account",
        "HashPlugin": "messages are signed by HMAC with SHA-256",
        "PluginDir": "everything is built in",
    },
    refused={
        "TLSType": (
            "connections are signed, not encrypted; leave the key out to run without encryption"
        ),
    },
)

GRES = Keys(
    same=named("Count Cores File Flags Links MultipleFiles Name NodeName Type"),
    differs={
        "AutoDetect": "nvml finds devices, and full and nvidia use nvml; with other words slurmd "
        "does not start"
    },
)

TOPOLOGY = Keys(
    same=named("SwitchName Switches Nodes BlockName BlockSizes RingName"),
    accepted={"LinkSpeed": "it is only shown, as in Slurm"},
)

_INSIDE = "the whole supervisor of a step is always in its job's namespace"
JOB_CONTAINER = Keys(
    same=named("""
        AutoBasePath BasePath CloneNSEpilog CloneNSEpilog_Wait CloneNSScript CloneNSScript_Wait
        Dirs InitScript NodeName Shared
    """),
    differs={"EntireStepInNS": _INSIDE},
)

_NO_USER_NAMESPACES = "jobs get no user namespace of their own"
NAMESPACE = Keys(
    same=named("""
        auto_base_path base_path clone_ns_epilog clone_ns_epilog_wait clone_ns_script
        clone_ns_script_wait defaults dir_confs dirs init_script node_confs nodes options path
        shared tmpfs
    """),
    differs={
        "clone_ns_flags": "CLONE_NEWNS is allowed; CLONE_NEWPID and CLONE_NEWUSER are refused"
    },
    accepted={"disable_bpf_token": _NO_USER_NAMESPACES},
    refused={"user_ns_script": _NO_USER_NAMESPACES},
)

_NO_SCRUN = "there is no scrun"
_ON_STDERR = "what goes wrong is written to the task's stderr"
OCI = Keys(
    same=named("""
        CreateEnvFile DisableCleanup DisableHooks EnvExclude IgnoreFileConfigJson RunTimeCreate
        RunTimeDelete RunTimeEnvExclude RunTimeKill RunTimeQuery RunTimeRun RunTimeStart
    """),
    differs={
        "ContainerPath": (
            "one that only the user enters, by default in /tmp, removed at the end; %m is refused"
        ),
        "MountSpoolDir": "by default /var/run/slurm",
    },
    accepted={
        "DebugFlags": _ON_STDERR,
        "FileDebug": _ON_STDERR,
        "SrunArgs": _NO_SCRUN,
        "SrunPath": _NO_SCRUN,
        "StdIODebug": _ON_STDERR,
        "SyslogDebug": _ON_STDERR,
    },
)

_IN_BAND = "the BMC is asked in band, by FreeIPMI or ipmitool on the node, without a user"
ACCT_GATHER = Keys(
    same=named("""
        EnergyIPMIFrequency EnergyIPMIPowerSensors ProfileHDF5Default ProfileHDF5Dir
        ProfileInfluxDBDatabase ProfileInfluxDBDefault ProfileInfluxDBExtraTags
        ProfileInfluxDBFlags ProfileInfluxDBFrequency ProfileInfluxDBHost ProfileInfluxDBPass
        ProfileInfluxDBRTPolicy ProfileInfluxDBTimeout ProfileInfluxDBUser SysfsInterfaces
    """),
    differs={
        "EnergyIPMITimeout": "the longest that one question to the BMC may take",
        "InfinibandOFEDPort": "the port with this number of every InfiniBand card, added up",
    },
    accepted={
        "EnergyIPMICalcAdjustment": "always as yes: the power is taken to go on since the last "
        "look",
        "EnergyIPMIPassword": _IN_BAND,
        "EnergyIPMIUsername": _IN_BAND,
    },
)

_OF_DATAWARP = "burst_buffer/lua does not ask for it; in Slurm, it does not, either"
BURST_BUFFER = Keys(
    same=named("""
        AllowUsers DenyUsers Directive Flags OtherTimeout PollInterval PrivateData StageInTimeout
        StageOutTimeout
    """),
    differs={
        "ValidateTimeout": "ends slurm_bb_job_process; in Slurm nothing ends it",
    },
    accepted=dict.fromkeys(
        named("CreateBuffer DefaultPool GetSysState GetSysStatus"), _OF_DATAWARP
    ),
)

FILES: dict[str, Keys] = {
    "slurmdbd.conf": SLURMDBD,
    "cgroup.conf": CGROUP,
    "gres.conf": GRES,
    "topology.conf": TOPOLOGY,
    "job_container.conf": JOB_CONTAINER,
    "namespace.yaml": NAMESPACE,
    "oci.conf": OCI,
    "acct_gather.conf": ACCT_GATHER,
    "burst_buffer.conf": BURST_BUFFER,
}
NOT_READ = {
    "helpers.conf": "NodeFeaturesPlugins has no effect",
    "mpi.conf": "PMIx has the settings of its library, and its messages go over srun",
    "resources.yaml": "--resources is refused",
}
"""Files that Slurm reads and pyslurm-ng does not, each with what follows for jobs."""

"""The keys of the files beside slurm.conf: what each does here."""

from __future__ import annotations

from pyslurm_ng.conf.effects.key_tables import Keys, named

_NO_SYSTEMD = "groups are made below the mount point without asking systemd"

CGROUP = Keys(
    same=named("""
        CgroupMountpoint CgroupPlugin AllowedRAMSpace AllowedSwapSpace ConstrainCores
        ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace MemorySwappiness MinRAMSpace
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
    refused={
        "MaxRAMPercent": "memory would be limited by AllowedRAMSpace alone; 100 is allowed",
        "MaxSwapPercent": "swap would be limited by AllowedSwapSpace alone; 100 is allowed",
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
        "ContainerPath": "one that only the user enters, by default in /tmp, removed at the end",
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

FILES: dict[str, Keys] = {
    "slurmdbd.conf": SLURMDBD,
    "cgroup.conf": CGROUP,
    "gres.conf": GRES,
    "topology.conf": TOPOLOGY,
    "job_container.conf": JOB_CONTAINER,
    "namespace.yaml": NAMESPACE,
    "oci.conf": OCI,
}
NOT_READ = {
    "acct_gather.conf": "energy is read at the intervals of slurm.conf; there are no profiles",
    "burst_buffer.conf": "there are no burst buffers; what jobs ask for is kept and shown",
    "helpers.conf": "NodeFeaturesPlugins has no effect",
    "mpi.conf": "PMIx has the settings of its library, and its messages go over srun",
    "resources.yaml": "--resources is refused",
}
"""Files that Slurm reads and pyslurm-ng does not, each with what follows for jobs."""

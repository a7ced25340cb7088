"""What ``scontrol show config`` prints: every key, set or not, in Slurm's order and units."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.base.preempt_words import preempt_text
from pyslurm_ng.base.units import format_seconds
from pyslurm_ng.conf.cgroup_conf import CgroupConf
from pyslurm_ng.conf.slurm_conf import PARAMETER_TABLE, SlurmConf
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.tables.keys import ACCT_GATHER, CGROUP
from pyslurm_ng.conf.tables.options import OPTIONS

if TYPE_CHECKING:
    from pyslurm_ng.conf.acct_gather_conf import AcctGatherConf

# In the order in which Slurm prints them. SlurmctldHost is printed as one line for each controller.
_SHOWN = """
    AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageHost
    AccountingStorageExternalHost AccountingStorageParameters AccountingStoragePort
    AccountingStorageTRES AccountingStorageType AccountingStoreFlags AcctGatherEnergyType
    AcctGatherFilesystemType AcctGatherInterconnectType AcctGatherNodeFreq
    AcctGatherProfileType AllowSpecResourcesUsage AuthAltTypes AuthAltParameters AuthInfo
    AuthType BatchStartTimeout BcastExclude BcastParameters BOOT_TIME BurstBufferType
    CertgenParameters CertgenType CertmgrParameters CertmgrType CliFilterParameters
    CliFilterPlugins ClusterName CommunicationParameters CompleteWait CpuFreqDef
    CpuFreqGovernors CredType DataParserParameters DebugFlags DefMemPerNode
    DefRuntimePlugin DependencyParameters DisableRootJobs EioTimeout EnforcePartLimits
    Epilog EpilogMsgTime EpilogSlurmctld EpilogTimeout FairShareDampeningFactor
    FederationParameters FirstJobId GresTypes
    GpuFreqDef GroupUpdateForce GroupUpdateTime HASH_VAL HashPlugin HealthCheckInterval
    HealthCheckNodeState HealthCheckProgram HealthCheckTimeout HttpParserType InactiveLimit
    InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherType JobAcctGatherParams
    JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPort JobCompType JobCompUser
    JobDefaults JobFileAppend JobRequeue JobSubmitPlugins KillOnBadExit KillWait
    LaunchParameters LicenseParameters Licenses LogTimeFormat MailDomain MailProg
    MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerNode MaxNodeCount
    MaxStepCount MaxTasksPerNode MCSPlugin MCSParameters MessageTimeout MetricsAuthUsers
    MetricsParameters MetricsType MinJobAge MpiDefault MpiParams MULTIPLE_SLURMD
    NamespaceType NEXT_JOB_ID NodeFeaturesPlugins OverTimeLimit PluginDir PlugStackConfig
    PreemptMode PreemptParameters PreemptType PreemptExemptTime PrEpParameters PrEpPlugins
    PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin
    PriorityDecayHalfLife PriorityCalcPeriod PriorityFavorSmall PriorityFlags
    PriorityMaxAge PriorityType PriorityUsageResetPeriod PriorityWeightAge
    PriorityWeightAssoc PriorityWeightFairShare PriorityWeightJobSize
    PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType
    Prolog PrologEpilogTimeout PrologSlurmctld PrologTimeout PrologFlags
    PropagatePrioProcess PropagateResourceLimits
    PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit RequeueExitHold
    ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun
    ResvProlog ReturnToService SchedulerParameters SchedulerTimeSlice SchedulerType
    ScronParameters SelectType SelectTypeParameters SerializerParameters SerializerPlugins
    SlurmUser SlurmctldAddr SlurmctldDebug SlurmctldHost[0] SlurmctldHttpAuthParameters
    SlurmctldLogFile SlurmctldPort SlurmctldSyslogDebug SlurmctldPrimaryOffProg
    SlurmctldPrimaryOnProg SlurmctldTimeout SlurmctldParameters SlurmdDebug
    SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort
    SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmrestdHttpAuthParameters
    SlurmrestdParameters SlurmSchedLogFile SlurmSchedLogLevel SlurmstepdParameters
    SlurmctldPidFile SLURM_CONF SLURM_VERSION SrunEpilog SrunPortRange SrunProlog
    StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram
    SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog
    TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS
    TopologyParam TopologyPlugin TrackWCKey TreeWidth UsePam UnkillableStepProgram
    UnkillableStepTimeout UrlParserType VSizeFactor WaitTime X11Parameters
""".split()

# Numbers and booleans that print without a unit or as 0 and 1.
_BARE = ("EioTimeout", "PrologEpilogTimeout", "EpilogTimeout", "PrologTimeout")
# Shown only where they are set, programs with a number each as there may be several.
_PROGRAMS = ("Epilog", "EpilogSlurmctld", "Prolog", "PrologSlurmctld")
_OWN_TIMEOUTS = ("EpilogTimeout", "PrologTimeout")
_AS_DIGIT = ("JobFileAppend", "JobRequeue", "KillOnBadExit", "GroupUpdateForce")
# Flags that print in Slurm's order, not in the file's.
_IN_TABLE_ORDER = (
    "AccountingStorageEnforce", "AccountingStoreFlags", "PriorityFlags", "PrivateData",
    "PrologFlags",
)  # fmt: skip
# Words that one of them implies.
_IMPLIED: dict[str, dict[str, tuple[str, ...]]] = {
    "HealthCheckNodeState": {"CYCLE": ("ANY",)},
    "PriorityFlags": {"DEPTH_OBLIVIOUS": ("NO_FAIR_TREE",)},
    "PrologFlags": {"Contain": ("Alloc",), "NoHold": ("Alloc",), "X11": ("Alloc", "Contain")},
}
_GATHERS = {
    "acct_gather_energy/ipmi": "EnergyIPMI",
    "acct_gather_interconnect/ofed": "InfinibandOFED",
    "acct_gather_interconnect/sysfs": "Sysfs",
    "acct_gather_profile/hdf5": "ProfileHDF5",
    "acct_gather_profile/influxdb": "ProfileInfluxDB",
}
"""Plugins, and how the names of their keys in acct_gather.conf begin."""
_SECRETS = ("Pass", "Password")
_WHEN_EMPTY = {
    "AccountingStorageEnforce": "none",
    "CpuFreqDef": "Unknown",
    "PriorityFlags": "",
    "PrivateData": "none",
    "TaskPluginParam": "(null type)",
    "TLSType": "tls/none",
}


def config_lines(
    conf: SlurmConf,
    *,
    version: str,
    boot_time: str,
    next_job_id: int,
    hash_matches: bool = True,
    user_id: Callable[[str], int],
    cgroup: CgroupConf | None = None,
    gather: AcctGatherConf | None = None,
) -> list[str]:
    """Return the lines between the heading and the state of the controllers.

    Args:
        version: what ``SLURM_VERSION`` shows.
        boot_time: when the controller started, as text.
        user_id: user name to uid, for ``SlurmUser = slurm(999)``.
        cgroup: a section of its own where some plugin uses control groups.
        gather: a section of its own where some plugin has keys in acct_gather.conf.
    """
    special = {
        "BOOT_TIME": boot_time,
        "HASH_VAL": "Match" if hash_matches else "Different Ours=0x0 Slurmctld=0x1",
        "MULTIPLE_SLURMD": "yes",
        "NEXT_JOB_ID": str(next_job_id),
        "SLURM_CONF": conf.path,
        "SLURM_VERSION": version,
        "AccountingStorageTRES": ",".join(conf.tracked_tres()),
        "JobDefaults": _job_defaults(conf),
        "SlurmUser": f"{conf.slurm_user}({user_id(conf.slurm_user)})",
        "SlurmdUser": f"{conf.slurmd_user}({user_id(conf.slurmd_user)})",
    }
    lines: list[str] = []
    for name in _SHOWN:
        if name in special:
            lines.append(_line(name, special[name]))
        elif name == "SlurmctldHost[0]":
            for index, host in enumerate(conf.slurmctld_host):
                lines.append(_line(f"SlurmctldHost[{index}]", str(host)))
        elif name in ("DefMemPerNode", "MaxMemPerNode"):
            lines.append(_memory(conf, name.removesuffix("PerNode")))
        elif name in _PROGRAMS or name in _OWN_TIMEOUTS:
            lines += _where_set(conf, name)
        else:
            key = PARAMETER_TABLE.find(name)
            assert key is not None, name
            lines.append(_line(name, shown_value(conf, key)))
    gathering = gather_lines(conf, gather) if gather is not None else []
    if gathering:
        lines += ["", "Account Gather Configuration:", *gathering]
    if cgroup is not None and cgroup.cgroup_plugin != "disabled" and _uses_cgroups(conf):
        lines += ["", "Cgroup Support Configuration:", *cgroup_lines(cgroup)]
    return lines


def _where_set(conf: SlurmConf, name: str) -> list[str]:
    """Return the lines of a key that is not shown by default."""
    key = PARAMETER_TABLE.find(name)
    assert key is not None, name
    value = getattr(conf, key.attribute)
    if name in _OWN_TIMEOUTS:
        return [_line(name, str(value))] if value != conf.prolog_epilog_timeout else []
    paths = value if isinstance(value, tuple) else (value,) if value else ()
    return [_line(f"{name}[{number}]", path) for number, path in enumerate(paths)]


def _uses_cgroups(conf: SlurmConf) -> bool:
    plugins = (conf.proctrack_type, conf.job_acct_gather_type, *conf.task_plugin)
    return any(plugin.endswith("/cgroup") for plugin in plugins)


def gather_lines(conf: SlurmConf, gather: AcctGatherConf) -> list[str]:
    """Return the keys of acct_gather.conf that a plugin uses, in alphabetical order.

    Passwords are not shown: every user may ask for the configuration.
    """
    plugins = (
        conf.acct_gather_energy_type,
        conf.acct_gather_profile_type,
        *conf.acct_gather_interconnect_type,
    )
    leads = tuple(lead for plugin, lead in _GATHERS.items() if plugin in plugins)
    lines = []
    for key in sorted(ACCT_GATHER, key=lambda key: key.name):
        if not key.name.startswith(leads) or not leads:
            continue
        value = getattr(gather, key.attribute)
        hidden = key.name.endswith(_SECRETS) and value
        text = "(hidden)" if hidden else str(value) if key.kind == "seconds" else _plain(key, value)
        lines.append(_line(key.name, text))
    return lines


def cgroup_lines(cgroup: CgroupConf) -> list[str]:
    """Return the keys of cgroup.conf in alphabetical order, as Slurm prints them."""
    lines = []
    for key in sorted(CGROUP, key=lambda key: key.name):
        value = getattr(cgroup, key.attribute)
        if key.kind == "percent":
            text = f"{value:.1f}%"
        elif key.kind == "mem_mib":
            text = f"{value}MB"
        elif key.name == "SystemdTimeout":
            text = f"{value} ms"
        else:
            text = _plain(key, value)
        lines.append(_line(key.name, text))
    return lines


def shown_value(conf: SlurmConf, key: Key) -> str:
    """Return one value as ``show config`` prints it."""
    value = getattr(conf, key.attribute)
    if key.name == "HealthCheckTimeout" and not conf.health_check_program:
        return "0 sec"
    if key.name == "PropagateResourceLimits" and not value:
        return "(null)" if conf.propagate_resource_limits_except else "ALL"
    if key.name == "PreemptMode":
        return preempt_text(value)
    if key.name == "SelectTypeParameters":
        return ",".join(word.upper() for word in value) or "NONE"
    if key.name == "AccountingStorageEnforce":
        value = _implied_enforcement(value)
    if key.name in _IMPLIED:
        value = _with_implied(value, _IMPLIED[key.name])
    if key.name == "TrackWCKey":  # as in `_implied_enforcement`
        value = value or not {"all", "wckeys"}.isdisjoint(conf.accounting_storage_enforce)
    if key.name in _IN_TABLE_ORDER:
        words = [word.partition("=")[0] for word in value]
        value = [name for name, *_ in OPTIONS[key.name] if name in words]
    if not value and not isinstance(value, (int, bool)) and key.name in _WHEN_EMPTY:
        return _WHEN_EMPTY[key.name]
    return _plain(key, value)


def _implied_enforcement(words: tuple[str, ...]) -> tuple[str, ...]:
    """Add the words of AccountingStorageEnforce that one of them implies."""
    full = set(words)
    if "all" in full:
        full = (full - {"all"}) | {"associations", "limits", "qos", "safe", "wckeys"}
    if "safe" in full:
        full.add("limits")
    if "nojobs" in full:
        full.add("nosteps")
    if full & {"limits", "qos", "wckeys"}:
        full.add("associations")
    return tuple(full)


def _with_implied(words: tuple[str, ...], implied: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Add the words that others imply, behind them; a CYCLE of some states implies none."""
    if "CYCLE" in words and len(words) > 1:
        return words
    more = [new for word in words for new in implied.get(word, ()) if new not in words]
    return (*words, *dict.fromkeys(more))


def _plain(key: Key, value: Any) -> str:
    kind = key.kind
    if kind == "bool":
        return str(int(value)) if key.name in _AS_DIGIT else ("yes" if value else "no")
    if kind == "ports":
        low, high = value
        return f"{low}-{high}" if low != high or key.name == "SrunPortRange" else str(low)
    if kind == "licenses":
        return ",".join(f"{name}:{count}" for name, count in value) or "(null)"
    if kind == "codes":
        return ",".join(_ranges(value)) or "(null)"
    if isinstance(value, int):
        return _number(key, value)
    if isinstance(value, (tuple, list)):
        return ",".join(str(word) for word in value) or "(null)"
    return str(value) or "(null)"


def _number(key: Key, value: int) -> str:
    if key.kind in ("duration", "duration_s"):
        return format_seconds(0 if value == NO_VAL else value)
    if value == INFINITE:
        return "INFINITE" if key.name == "SuspendTime" else "UNLIMITED"
    if value == NO_VAL:
        return "(null)"
    unit = {
        "seconds": " sec",
        "minutes": " min",
        "microseconds": " usec",
        "rate": " nodes/min",
        "percent": " percent",
    }.get(key.kind, "")
    return f"{value}{'' if key.name in _BARE else unit}"


def _ranges(numbers: tuple[int, ...]) -> list[str]:
    """Fold ascending numbers: 1, 2, 3, 7 to ``1-3``, ``7``."""
    out: list[list[int]] = []
    for number in sorted(set(numbers)):
        if out and out[-1][1] + 1 == number:
            out[-1][1] = number
        else:
            out.append([number, number])
    return [str(low) if low == high else f"{low}-{high}" for low, high in out]


def _memory(conf: SlurmConf, which: str) -> str:
    """Return the line of the memory default or limit that is set, which may be for each CPU."""
    lead = "def_mem" if which == "DefMem" else "max_mem"
    per_cpu = getattr(conf, f"{lead}_per_cpu")
    if per_cpu:
        return _line(f"{which}PerCPU", str(per_cpu))
    per_node = getattr(conf, f"{lead}_per_node")
    return _line(f"{which}PerNode", str(per_node) if per_node else "UNLIMITED")


def _job_defaults(conf: SlurmConf) -> str:
    words = []
    if conf.def_cpu_per_gpu != NO_VAL:
        words.append(f"DefCpuPerGPU={conf.def_cpu_per_gpu}")
    if conf.def_mem_per_gpu:
        words.append(f"DefMemPerGPU={conf.def_mem_per_gpu}")
    return ",".join(words) or "(null)"


def _line(name: str, value: str) -> str:
    return f"{name:<23} = {value}"

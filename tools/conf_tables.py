"""The tables of configuration keys, `src/pyslurm_ng/conf/tables`.

The facts say in words what applies when a key is not given; what a program needs (kind, default in
the file's own notation, bounds) stands in the tables below.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from slurm_facts import config as facts_of

TABLES = Path(__file__).resolve().parent.parent / "src" / "pyslurm_ng" / "conf" / "tables"

MAX16 = 65533  # Slurm keeps these in 16 bits, of which 65534 and 65535 are markers
MAX32 = 2**32 - 3
INFINITE = 2**32 - 1
NO_VALUE = 2**32 - 2

# By file, or by kind of line in slurm.conf.
SECTIONS = {
    "slurm.conf": "PARAMETERS",
    "NodeName": "NODE",
    "PartitionName": "PARTITION",
    "NodeSet": "NODESET",
    "DownNodes": "DOWNNODES",
    "PowerAction": "POWERACTION",
    "slurmdbd.conf": "SLURMDBD",
    "cgroup.conf": "CGROUP",
    "gres.conf": "GRES",
    "topology.conf": "TOPOLOGY",
    "job_container.conf": "JOB_CONTAINER",
    "namespace.yaml": "NAMESPACE",
    "oci.conf": "OCI",
    "acct_gather.conf": "ACCT_GATHER",
    "burst_buffer.conf": "BURST_BUFFER",
}

DEBUG_LEVELS = "quiet fatal error info verbose debug debug2 debug3 debug4 debug5".split()
LIMITS = "ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK".split()
TIME_FORMATS = (
    "iso8601 iso8601_ms rfc5424 rfc5424_ms rfc3339 clock short thread_id format_stderr".split()
)
NODE_STATES = (
    "CLOUD DOWN DRAIN DYNAMIC_FUTURE DYNAMIC_NORM FAIL INVALID_REG MAINTENANCE NOT_RESPONDING "
    "PLANNED POWERING_DOWN POWERING_UP REBOOT RESERVED".split()
)
BINDINGS = "none socket ldom core thread".split()

# kind, default, choices, low, high, infinite of keys whose entry in the specification is words.
SLURM: dict[str, dict[str, object]] = {
    "AccountingStorageEnforce": {"default": ""},
    "AccountingStorageTRES": {"default": ""},
    "AccountingStorageType": {"choices": ["accounting_storage/slurmdbd"]},
    "AcctGatherEnergyType": {"kind": "plugins"},
    "AcctGatherInterconnectType": {"kind": "plugins"},
    "AuthAltTypes": {"kind": "plugins", "choices": ["auth/jwt"]},
    "CertgenType": {"default": ""},
    "ClusterName": {"kind": "cluster_name", "default": ""},
    "CliFilterPlugins": {  # python is ours
        "kind": "plugins",
        "choices": [f"cli_filter/{name}" for name in ("lua", "python", "syslog", "user_defaults")],
    },
    "CommunicationParameters": {"kind": "options"},
    "CompleteWait": {"high": MAX16},
    "CpuFreqDef": {"default": ""},
    "CpuFreqGovernors": {
        "choices": "Conservative OnDemand Performance PowerSave SchedUtil UserSpace".split()
    },
    "DataParserParameters": {"default": ""},
    "DebugFlags": {"kind": "list"},
    "DefCpuPerGPU": {"default": str(NO_VALUE)},
    "EioTimeout": {"high": MAX16},
    "EnforcePartLimits": {"choices": ["NO", "ANY", "ALL", "YES"]},
    "EpilogTimeout": {"default": str(NO_VALUE)},
    "GresTypes": {"kind": "words"},
    "HealthCheckInterval": {"high": MAX16},
    "HealthCheckNodeState": {
        "choices": ("ALLOC ANY CYCLE IDLE NONDRAINED_IDLE MIXED REBOOT_ONLY START_ONLY".split())
    },
    "HttpParserType": {
        "default": "",
        "choices": ["http_parser/llhttp_parser", "http_parser/libhttp_parser"],
    },
    "InactiveLimit": {"high": MAX16},
    "JobAcctGatherFrequency": {
        "kind": "frequencies",
        "default": "task=30",
        "choices": ["task", "energy", "network", "filesystem"],
    },
    "JobCompLoc": {"default": ""},
    "JobCompPort": {"default": "0", "high": 65535},
    "JobSubmitPlugins": {
        "kind": "plugins",
        "choices": (  # python is ours
            "all_partitions defaults logging lua partition pbs python require_timelimit "
            "throttle".split()
        ),
    },
    "KillWait": {"high": MAX16},
    "Licenses": {"kind": "licenses"},
    "LogTimeFormat": {"kind": "list", "choices": TIME_FORMATS},
    "MaxArraySize": {"high": 4000001},
    "MaxBatchRequeue": {"high": MAX32},
    "MaxDBDMsgs": {"default": str(NO_VALUE)},
    "MaxJobCount": {"low": 1, "high": 10_000_000},
    "MaxJobId": {"low": 1, "high": 0x03FFFFFF},
    "MaxNodeCount": {"default": str(NO_VALUE), "low": 1, "high": 1_000_000},
    "MaxStepCount": {"low": 1},
    "MaxTasksPerNode": {"low": 1, "high": MAX16},
    "MCSParameters": {"kind": "string"},
    "MessageTimeout": {"low": 1, "high": MAX16},
    "MetricsAuthUsers": {"default": ""},
    "MpiDefault": {
        "kind": "mpi",
        "default": "",
        "choices": "none pmi2 pmix cray_shasta".split(),
    },
    "MpiParams": {"kind": "options"},
    "NamespaceType": {"choices": ["namespace/linux", "namespace/tmpfs"]},
    "NodeFeaturesPlugins": {"kind": "plugins", "choices": ["node_features/helpers"]},
    "OverTimeLimit": {"high": MAX16, "infinite": True},
    "PluginDir": {"default": ""},
    "PlugStackConfig": {"default": ""},
    "PreemptExemptTime": {"default": "-1"},
    "PreemptMode": {
        "default": "OFF",
        "choices": "OFF CANCEL GANG REQUEUE SUSPEND PRIORITY WITHIN".split(),
    },
    "PreemptType": {"choices": ["preempt/partition_prio", "preempt/qos"]},
    "PrEpPlugins": {"kind": "plugins", "choices": ["prep/script"]},
    "PriorityCalcPeriod": {"kind": "duration", "default": "5"},
    "PrologEpilogTimeout": {"default": "65534", "high": 65534},
    "PrologTimeout": {"default": str(NO_VALUE)},
    "PropagatePrioProcess": {"kind": "int", "low": 0, "high": 2},
    "PropagateResourceLimits": {"choices": LIMITS, "default": ""},
    "PropagateResourceLimitsExcept": {"choices": LIMITS, "default": ""},
    "PriorityWeightTRES": {"kind": "weights", "default": ""},
    "RequeueExit": {"kind": "codes"},
    "RequeueExitHold": {"kind": "codes"},
    "ResumeTimeout": {"high": MAX16},
    "ResvOverRun": {"high": MAX16, "infinite": True},
    "ReturnToService": {"kind": "int", "low": 0, "high": 2},
    "SchedulerTimeSlice": {"low": 5, "high": MAX16},
    "SelectTypeParameters": {"kind": "list", "default": "CR_Core_Memory"},
    "SerializerParameters": {"default": "", "choices": "compact pretty complex no_tag".split()},
    "SerializerPlugins": {"default": "", "choices": "json yaml url-encoded".split()},
    "SlurmctldDebug": {"choices": DEBUG_LEVELS},
    "SlurmctldHost": {"kind": "hosts", "default": ""},
    "SlurmctldLogFile": {"default": ""},
    "SlurmctldPort": {"kind": "ports", "default": "6817"},
    "SlurmctldSyslogDebug": {"choices": DEBUG_LEVELS, "default": ""},
    "SlurmctldTimeout": {"high": MAX16},
    "SlurmdDebug": {"choices": DEBUG_LEVELS},
    "SlurmdLogFile": {"default": ""},
    "SlurmdSyslogDebug": {"choices": DEBUG_LEVELS, "default": ""},
    "SlurmdTimeout": {"high": MAX16},
    "SlurmSchedLogLevel": {"low": 0, "high": 1},
    "SrunPortRange": {"kind": "ports", "default": "0"},
    "SuspendExcStates": {"choices": NODE_STATES},
    "SuspendTime": {"infinite": True, "default": "INFINITE"},
    "SuspendTimeout": {"high": MAX16},
    "SwitchType": {"choices": ["switch/hpe_slingshot", "switch/nvidia_imex"]},
    "TaskPlugin": {"kind": "plugins"},
    "TCPTimeout": {"low": 1, "high": MAX16},
    "TopologyPlugin": {
        "choices": [f"topology/{kind}" for kind in ("block", "flat", "ring", "tree")]
    },
    "TreeWidth": {"low": 1, "high": MAX16},
    "UnkillableStepTimeout": {"default": str(NO_VALUE)},
    "UrlParserType": {"default": ""},
    "VSizeFactor": {"high": MAX16},
    "WaitTime": {"high": MAX16},
    "SlurmUser": {"kind": "user"},
    "SlurmdUser": {"kind": "user"},
    "JobCompUser": {"default": "root"},
    "AccountingStoragePort": {"low": 1, "high": 65535},
    "SlurmdPort": {"low": 1, "high": 65535},
    "FirstJobId": {"low": 1, "high": 0x03FFFFFF},
    "BurstBufferType": {"choices": ["burst_buffer/datawarp", "burst_buffer/lua"]},
    "MetricsType": {"choices": ["metrics/openmetrics"]},
    "ScronParameters": {"kind": "options"},
    "LicenseParameters": {"kind": "options"},
    "FederationParameters": {"kind": "options"},
    "X11Parameters": {"kind": "options"},
}

NODE: dict[str, dict[str, object]] = {
    "NodeName": {"default": ""},
    "NodeHostname": {"default": ""},
    "NodeAddr": {"default": ""},
    "BcastAddr": {"kind": "hostlist", "default": ""},
    "Boards": {"low": 1, "high": MAX16},
    "CoreSpecCount": {"high": MAX16},
    "CoresPerSocket": {"low": 1, "high": MAX16, "default": str(NO_VALUE)},
    "CpuBind": {"choices": BINDINGS},
    "CPUs": {"low": 1, "high": MAX16, "default": str(NO_VALUE)},
    "CpuSpecList": {"kind": "codes"},
    "Features": {"kind": "words"},
    "Gres": {"kind": "gres"},
    "Parameters": {"kind": "list"},
    "Port": {"kind": "hostlist", "default": ""},
    "Procs": {"alias": "CPUs"},
    "Sockets": {"low": 1, "high": MAX16, "default": str(NO_VALUE)},
    "SocketsPerBoard": {"low": 1, "high": MAX16, "default": str(NO_VALUE)},
    "SuspendTime": {"infinite": True, "default": str(NO_VALUE)},
    "State": {"choices": "CLOUD DOWN DRAIN EXTERNAL FAIL FAILING FUTURE UNKNOWN".split()},
    "ThreadsPerCore": {"low": 1, "high": MAX16, "default": str(NO_VALUE)},
    "Topology": {"kind": "string"},
    "Weight": {"high": 0xFFFFFFFE},
}

PARTITION: dict[str, dict[str, object]] = {
    "PartitionName": {"default": ""},
    "AllowAccounts": {"default": "", "kind": "lower_words"},
    "AllowGroups": {"default": "", "kind": "words"},
    "AllowQos": {"default": "", "kind": "lower_words"},
    "AllocNodes": {"default": "", "kind": "hostlist"},
    "CpuBind": {"choices": BINDINGS},
    "DefaultTime": {"kind": "limit_min", "default": str(NO_VALUE)},
    "DefCpuPerGPU": {"default": str(NO_VALUE)},
    "DefMemPerCPU": {"default": str(NO_VALUE)},
    "DefMemPerGPU": {"default": str(NO_VALUE)},
    "DefMemPerNode": {"default": str(NO_VALUE)},
    "DenyAccounts": {"kind": "lower_words"},
    "DenyQos": {"kind": "lower_words"},
    "DisableRootJobs": {"kind": "bool", "default": "NO"},
    "Exclusive": {"choices": ["NO", "NODE", "USER", "TOPO"]},
    "MaxCPUsPerNode": {"infinite": True, "default": "UNLIMITED"},
    "MaxCPUsPerSocket": {"infinite": True, "default": "UNLIMITED"},
    "MaxMemPerCPU": {"default": str(NO_VALUE)},
    "MaxMemPerNode": {"default": str(NO_VALUE)},
    "MaxNodes": {"infinite": True, "default": "UNLIMITED"},
    "MaxTime": {"kind": "limit_min", "default": "UNLIMITED"},
    "Nodes": {"kind": "hostlist", "default": ""},
    "OverSubscribe": {"kind": "oversubscribe", "default": "NO"},
    "OverTimeLimit": {"infinite": True, "high": MAX16, "default": str(NO_VALUE)},
    "PreemptMode": {
        "kind": "list",
        "default": "",
        "choices": "OFF CANCEL GANG REQUEUE SUSPEND PRIORITY".split(),
    },
    "PriorityJobFactor": {"high": MAX16},
    "PriorityTier": {"high": MAX16},
    "ResumeTimeout": {"default": str(NO_VALUE), "high": MAX16},
    "SelectTypeParameters": {
        "kind": "list",
        "default": "",
        "choices": ["CR_Core", "CR_Socket", "CR_ONE_TASK_PER_CORE"],
    },
    "SuspendTime": {"infinite": True, "default": str(NO_VALUE)},
    "SuspendTimeout": {"default": str(NO_VALUE), "high": MAX16},
    "Topology": {"default": ""},
    "TRESBillingWeights": {"kind": "weights", "default": ""},
    "GraceTime": {"kind": "duration_s"},
}

DOWNNODES: dict[str, dict[str, object]] = {
    "State": {"choices": "DOWN DRAIN FAIL FAILING FUTURE".split()},
}
NODESET: dict[str, dict[str, object]] = {"Feature": {"kind": "string"}}
POWERACTION: dict[str, dict[str, object]] = {}

CGROUP: dict[str, dict[str, object]] = {
    "CgroupPlugin": {"choices": ["cgroup/v1", "cgroup/v2", "autodetect", "disabled"]},
    "EnableExtraControllers": {"kind": "list", "choices": "all io hugetlb pids rdma misc".split()},
    "MemorySwappiness": {"kind": "int", "low": 0, "high": 100, "default": str(NO_VALUE)},
    "AllowedRAMSpace": {"kind": "percent"},
    "SystemdTimeout": {"kind": "int"},
}

SLURMDBD: dict[str, dict[str, object]] = {
    "AuthAltTypes": {"kind": "plugins", "choices": ["auth/jwt"]},
    "AuthAltParameters": {"kind": "list", "choices": []},
    "AuthInfo": {"kind": "list", "choices": []},
    "AuthType": {"choices": ["auth/munge", "auth/slurm"]},
    "ArchiveJobScript": {"default": ""},
    "ArchiveJobEnv": {"default": ""},
    "CommunicationParameters": {"kind": "list", "choices": []},
    "DbdAddr": {"default": ""},
    "DbdPort": {"low": 1, "high": 65535},
    "DebugFlags": {"kind": "list"},
    "DebugLevel": {"choices": DEBUG_LEVELS},
    "DebugLevelSyslog": {"choices": DEBUG_LEVELS, "default": ""},
    "HashPlugin": {"choices": ["hash/k12", "hash/sha3"]},
    "LogFile": {"default": ""},
    "LogTimeFormat": {"kind": "list", "choices": TIME_FORMATS},
    "MaxQueryTimeRange": {"kind": "duration", "default": "INFINITE"},
    "MessageTimeout": {"low": 1, "high": MAX16},
    "Parameters": {
        "kind": "list",
        "choices": ["PreserveCaseAll", "PreserveCaseResource", "PreserveCaseUser"],
    },
    "PluginDir": {"default": ""},
    "PrivateData": {
        "kind": "list",
        "choices": "accounts events jobs reservations usage users".split(),
    },
    "SerializerParameters": {"default": "", "choices": []},
    "SerializerPlugins": {"default": "", "choices": []},
    "SlurmUser": {"kind": "user"},
    "StorageParameters": {"kind": "list", "choices": []},
    # Ours beside Slurm's: an embedded database needs neither host nor password.
    "StorageType": {
        "default": "",
        "choices": ["accounting_storage/mysql", "accounting_storage/sqlite"],
    },
    "StorageUser": {"default": ""},
    "StoragePort": {"low": 1, "high": 65535},
    "TCPTimeout": {"low": 1, "high": MAX16},
    "TLSParameters": {"kind": "list", "choices": []},
    "TLSType": {"choices": ["tls/s2n"]},
    "MaxPurgeLimit": {"low": 1},
    "PurgeJobScriptAfter": {"default": ""},
    "PurgeJobEnvAfter": {"default": ""},
}

GRES: dict[str, dict[str, object]] = {
    "AutoDetect": {"default": "", "choices": "full nrt nvidia nvml off oneapi rsmi".split()},
    "Count": {"kind": "count", "default": str(NO_VALUE)},
    "Cores": {"kind": "codes", "default": ""},
    "File": {"kind": "string"},
    "Flags": {
        "choices": (
            "CountOnly env_uuid explicit one_sharing all_sharing nvidia_gpu_env amd_gpu_env "
            "intel_gpu_env opencl_env no_gpu_env".split()
        )
    },
    "Links": {"kind": "list"},
    "MultipleFiles": {"kind": "string"},
    "NodeName": {"kind": "hostlist", "default": ""},
}

TOPOLOGY: dict[str, dict[str, object]] = {
    "BlockSizes": {"kind": "codes", "default": ""},
    "LinkSpeed": {"kind": "int", "default": "1"},
}

JOB_CONTAINER: dict[str, dict[str, object]] = {
    "AutoBasePath": {"default": ""},
    "BasePath": {"kind": "string"},
    "EntireStepInNS": {"default": ""},
    "NodeName": {"kind": "hostlist", "default": ""},
    "Shared": {"default": ""},
}

NAMESPACE: dict[str, dict[str, object]] = {
    "auto_base_path": {"default": ""},
    "base_path": {"kind": "string"},
    "clone_ns_flags": {"kind": "list"},
    "defaults": {"kind": "string"},
    "dir_confs": {"kind": "list"},
    "disable_bpf_token": {"default": ""},
    "node_confs": {"kind": "list"},
    "options": {"kind": "string"},
    "shared": {"default": ""},
    "tmpfs": {"default": ""},
}

OCI: dict[str, dict[str, object]] = {
    "ContainerPath": {"kind": "string", "default": ""},
    "CreateEnvFile": {"default": "disabled", "choices": "null newline disabled".split()},
    "DebugFlags": {"kind": "string"},
    "DisableCleanup": {"default": ""},
    "DisableHooks": {"kind": "list"},
    "EnvExclude": {"kind": "string"},
    "FileDebug": {"kind": "string"},
    "IgnoreFileConfigJson": {"default": ""},
    "MountSpoolDir": {"kind": "string", "default": ""},
    "RunTimeEnvExclude": {"kind": "string"},
    **{
        f"RunTime{name}": {"kind": "string"}
        for name in ("Create", "Delete", "Kill", "Query", "Run", "Start")
    },
    "SrunArgs": {"kind": "string"},
    "SrunPath": {"kind": "string", "default": ""},
    "StdIODebug": {"kind": "string"},
    "SyslogDebug": {"kind": "string"},
}

_SERIES = "All None Energy Filesystem Network Task".split()
# Slurm's longest time of a function of burst_buffer.lua is 24 days.
_LONGEST = {"low": 1, "high": 2_073_600}
BURST_BUFFER: dict[str, dict[str, object]] = {
    "AllowUsers": {"kind": "list", "default": ""},
    "CreateBuffer": {"kind": "string"},
    "DefaultPool": {"kind": "string", "default": ""},
    "DenyUsers": {"kind": "list"},
    "Directive": {"kind": "string", "default": "BB_LUA"},
    "Flags": {
        "kind": "list",
        "default": "DisablePersistent",
        "choices": (
            "DisablePersistent EmulateCray EnablePersistent PrivateData TeardownFailure".split()
        ),
    },
    "GetSysState": {"kind": "string"},
    "GetSysStatus": {"kind": "string"},
    "OtherTimeout": _LONGEST,
    "PollInterval": {"low": 1, "high": 86400},
    "StageInTimeout": _LONGEST,
    "StageOutTimeout": _LONGEST,
    "ValidateTimeout": {"low": 1, "high": 3600},
}
ACCT_GATHER: dict[str, dict[str, object]] = {
    "EnergyIPMIFrequency": {"low": 1, "high": 3600},
    "EnergyIPMIPowerSensors": {"kind": "string", "default": ""},
    "EnergyIPMITimeout": {"low": 1, "high": 3600},
    "InfinibandOFEDPort": {"low": 1, "high": 255},
    "ProfileHDF5Default": {"default": "", "choices": _SERIES},
    "ProfileInfluxDBDefault": {"default": "", "choices": _SERIES},
    "ProfileInfluxDBExtraTags": {"choices": "cluster sluid uid user".split()},
    "ProfileInfluxDBFlags": {"choices": ["grouped_fields"]},
    "ProfileInfluxDBFrequency": {"low": 1, "high": 3600},
    "ProfileInfluxDBHost": {"kind": "string"},
    "ProfileInfluxDBRTPolicy": {"default": ""},
    "ProfileInfluxDBTimeout": {"low": 1, "high": 3600},
}

# Keys that exist in Slurm's output or files but not in the list of documented keys.
EXTRA_SLURM = [
    ("SlurmrestdHttpAuthParameters", "list", "HTTP listener authentication of the REST daemon"),
]

KIND_OF_TYPE = {
    "string": "string",
    "path": "path",
    "path list": "paths",
    "bool": "bool",
    "enum": "enum",
    "plugin": "plugin",
    "int": "int",
    "seconds": "seconds",
    "minutes": "minutes",
    "microseconds": "microseconds",
    "MiB": "mem_mib",
    "percent": "percent",
    "time": "duration",
    "nodes/minute": "rate",
    "range": "ports",
    "hostlist": "hostlist",
    "list": "list",
    "time unit": "purge",
    "time unit hours/days/months": "purge",
    "int list": "codes",
    "index list": "codes",
    "path expr": "string",
    "int with K/M/G/T/P": "count",
    "ms": "int",
    "int 0..100": "int",
    "int or range": "ports",
}
PYTHON_TYPE = {
    "bool": "bool",
    "list": "tuple[str, ...]",
    "options": "tuple[str, ...]",
    "words": "tuple[str, ...]",
    "lower_words": "tuple[str, ...]",
    "plugins": "tuple[str, ...]",
    "paths": "tuple[str, ...]",
    "frequencies": "tuple[str, ...]",
    "hosts": "tuple[ControllerHost, ...]",
    "codes": "tuple[int, ...]",
    "licenses": "tuple[tuple[str, int], ...]",
    "ports": "tuple[int, int]",
    "int": "int",
    "seconds": "int",
    "minutes": "int",
    "microseconds": "int",
    "mem_mib": "int",
    "percent": "float",
    "duration": "int",
    "duration_s": "int",
    "rate": "int",
    "limit_min": "int",
    "count": "int",
    "purge": "tuple[int, str]",
    "gres": "tuple[NodeGres, ...]",
}
SPELLING = {
    "IPMI": "Ipmi",
    "HDF5": "Hdf5",
    "InfluxDB": "Influxdb",
    "RTPolicy": "RtPolicy",
    "OFED": "Ofed",
    "PrEp": "Prep",
    "GPU": "Gpu",
    "CPUs": "Cpus",
    "CPU": "Cpu",
    "TRES": "Tres",
    "QOS": "Qos",
    "DBD": "Dbd",
    "MCS": "Mcs",
    "PAM": "Pam",
    "TCP": "Tcp",
    "TLS": "Tls",
    "VSize": "Vsize",
    "WCKey": "Wckey",
    "LLN": "Lln",
    "FS": "Fs",
    "RAM": "Ram",
    "TXN": "Txn",
    "HTTP": "Http",
    "PlugStack": "Plugstack",
    "CloneNS": "CloneNs",
    "InNS": "InNs",
    "NodeHostname": "NodeHostname",
}


def snake(name: str) -> str:
    for old, new in SPELLING.items():
        name = name.replace(old, new)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def plugin_choices(values: str) -> list[str]:
    """Expand ``auth/munge,slurm`` to full names."""
    words = [re.sub(r"\(.*", "", word).strip() for word in values.split(",")]
    if "/" not in words[0]:
        return [word for word in words if word]
    prefix = words[0].split("/")[0]
    return [word if "/" in word else f"{prefix}/{word}" for word in words if word]


def default_text(entry: dict[str, str], kind: str) -> str:
    text = str(entry.get("default", ""))
    if text in ("none", "required", "plugin dependent", "global", "never", "syslog"):
        return ""
    return text


def row(entry: dict[str, str], override: dict[str, object]) -> dict[str, object]:
    name = entry["name"]
    kind = str(override.get("kind", "")) or KIND_OF_TYPE[entry["type"]]
    if entry.get("has_options") and "kind" not in override:
        kind = "options"
    choices = override.get("choices")
    if choices is None:
        choices = []
        if kind in ("plugin", "plugins") and entry.get("values"):
            choices = plugin_choices(entry["values"])
        elif kind == "enum" and entry.get("values"):
            choices = [word.strip() for word in entry["values"].split(",")]
    high = override.get("high", MAX32)
    return {
        "name": name,
        "attribute": snake(name),
        "kind": kind,
        "default": str(override.get("default", default_text(entry, kind))),
        "choices": tuple(choices),  # type: ignore[arg-type]
        "low": override.get("low", 0),
        "high": high,
        "infinite": bool(override.get("infinite", False)),
        "needs_restart": entry.get("apply") == "restart",
        "tier": entry.get("tier", 1),
        "help": entry.get("help", ""),
        "alias": override.get("alias", ""),
    }


def option_row(option: dict[str, object]) -> tuple[str, str, int, int]:
    """Return name, kind, low, high of a sub-option."""
    words = str(option["type"]).split()
    kind = words[0]
    low, high = 0, MAX32
    if len(words) > 1 and ".." in words[1]:
        low, high = (int(text) for text in words[1].split(".."))
    if "/" in kind:
        return str(option["name"]), kind, 0, 0
    known = {"flag", "int", "seconds", "minutes", "microseconds", "bytes", "percent", "time", "ms"}
    known.add("range")
    return str(option["name"]), kind if kind in known else "text", low, high


def literal(value: object) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(literal(element) for element in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def key_lines(rows: list[dict[str, object]], constant: str) -> list[str]:
    lines = [f"{constant}: tuple[Key, ...] = ("]
    for row in rows:
        if row["alias"]:
            continue
        arguments = [literal(row[field]) for field in ("name", "attribute", "kind", "default")]
        for field, usual in (
            ("choices", ()),
            ("low", 0),
            ("high", MAX32),
            ("infinite", False),
            ("needs_restart", False),
            ("tier", 1),
        ):
            if row[field] != usual:
                arguments.append(f"{field}={literal(row[field])}")
        arguments.append(f"help={literal(row['help'])}")
        lines.append(f"    Key({', '.join(arguments)}),")
    lines.append(")")
    return lines


def record_lines(rows: list[dict[str, object]], name: str, doc: str) -> list[str]:
    lines = ["", "", "@dataclass(frozen=True, slots=True, kw_only=True)", f"class {name}:"]
    lines += [f'    """{doc}"""', ""]
    for row in rows:
        if not row["alias"]:
            kind = PYTHON_TYPE.get(str(row["kind"]), "str")
            lines.append(f"    {row['attribute']}: {kind}")
    return lines


# Options of which 0 would divide by nothing or let nobody ask.
FROM_ONE = frozenset(("rl_bucket_size", "rl_refill_period", "rl_refill_rate", "rl_table_size"))

# Options that Slurm does not have: name, kind, lowest, highest.
OUR_OPTIONS = {
    "SchedulerParameters": [
        ("bf_reserve_depth", "int", 0, 4294967293),
        ("bf_smart", "flag", 0, 4294967293),
        ("jobs_per_user_per_hour", "int", 1, 4294967293),  # of job_submit/throttle, undocumented
    ],
    "SlurmctldParameters": [
        ("fence_program", "text", 0, 0),
        ("fence_timeout", "seconds", 1, 86400),
        ("job_submit_timeout", "seconds", 1, 3600),
        ("no_command_server", "flag", 0, 0),
        ("node_lease", "seconds", 1, 86400),
        ("node_loss", "slurm/confirmed/lease", 0, 0),
        ("zmq_port", "int", 1, 65535),
    ],
    "SlurmdParameters": [("spank_timeout", "seconds", 1, 3600)],
    "AuthInfo": [("admin_hosts", "text", 0, 4294967293)],
}


def modules() -> dict[Path, str]:
    """Return the modules' texts by path."""
    slurm = facts_of("slurm.conf")
    options: dict[str, list[tuple[str, str, int, int]]] = {}
    for option in slurm["option"]:
        name, kind, low, high = option_row(option)
        low = 1 if name in FROM_ONE else low
        options.setdefault(option["parameter"], []).append((name, kind, low, high))
    for parameter, rows_of_ours in OUR_OPTIONS.items():
        options.setdefault(parameter, []).extend(rows_of_ours)

    def rows(
        entries: list[dict[str, str]], overrides: dict[str, dict[str, object]]
    ) -> list[dict[str, object]]:
        unknown = set(overrides) - {entry["name"] for entry in entries}
        assert not unknown, f"overrides without an entry: {sorted(unknown)}"
        return [row(entry, overrides.get(entry["name"], {})) for entry in entries]

    parameters = slurm["parameter"] + [
        {"name": name, "type": kind, "help": text, "tier": 3, "apply": "reconfigure"}
        for name, kind, text in EXTRA_SLURM
    ]
    tables = {
        "PARAMETERS": rows(parameters, SLURM),
        "NODE": rows(slurm["node"], NODE),
        "PARTITION": rows(slurm["partition"], PARTITION),
        "NODESET": rows(slurm["nodeset"], NODESET),
        "DOWNNODES": rows(slurm["downnodes"], DOWNNODES),
        "POWERACTION": rows(slurm["poweraction"], POWERACTION),
    }
    for table_row in tables["PARAMETERS"]:
        if table_row["name"] == "DebugFlags":
            table_row["choices"] = tuple(slurm["debug_flags"])
        elif table_row["name"] == "SelectTypeParameters":
            table_row["choices"] = tuple(name for name, *_ in options["SelectTypeParameters"])
    others = {
        "CGROUP": ("cgroup.conf", "parameter", CGROUP),
        "SLURMDBD": ("slurmdbd.conf", "parameter", SLURMDBD),
        "GRES": ("gres.conf", "parameter", GRES),
        "TOPOLOGY": ("topology", "topology_conf", TOPOLOGY),
        "JOB_CONTAINER": ("job_container.conf", "parameter", JOB_CONTAINER),
        "NAMESPACE": ("namespace.yaml", "parameter", NAMESPACE),
        "OCI": ("oci.conf", "parameter", OCI),
        "ACCT_GATHER": ("acct_gather.conf", "parameter", ACCT_GATHER),
        "BURST_BUFFER": ("burst_buffer.conf", "parameter", BURST_BUFFER),
    }
    for constant, (file, section, overrides) in others.items():
        tables[constant] = rows(facts_of(file)[section], overrides)
    for table_row in tables["SLURMDBD"]:
        if table_row["name"] == "DebugFlags":
            values = next(
                e["values"]
                for e in facts_of("slurmdbd.conf")["parameter"]
                if e["name"] == "DebugFlags"
            )
            table_row["choices"] = tuple(word.strip() for word in values.split(","))

    head = "# Generated by `make tables`; what it is made of is in tools/conf_tables.py."
    long_lines = "# ruff: noqa: E501\n# fmt: off\n"
    future = "from __future__ import annotations\n"
    out = ['"""Every key of the configuration files."""', head, long_lines, future]
    out += ["from pyslurm_ng.conf.tables.key import Key"]
    for constant, items in tables.items():
        out += ["", *key_lines(items, constant)]
    out += ["", "SECTIONS: dict[str, tuple[Key, ...]] = {"]
    out += [f"    {literal(section)}: {constant}," for section, constant in SECTIONS.items()]
    out += ["}", '"""By file, or by kind of line in slurm.conf."""']
    texts = {"keys.py": out}

    out = ['"""Every word that list parameters take: name, kind, lowest, highest."""', head]
    out += ["# fmt: off\n", future]
    out += ["OPTIONS: dict[str, tuple[tuple[str, str, int, int], ...]] = {"]
    for parameter, items in options.items():
        out.append(f"    {literal(parameter)}: (")
        out += [f"        {literal(item_row)}," for item_row in items]
        out.append("    ),")
    texts["options.py"] = [*out, "}"]

    out = ['"""The configuration as typed attributes, one for each key."""', head, ""]
    out += [future, "from dataclasses import dataclass"]
    out += ["", "from pyslurm_ng.conf.tables.key import ControllerHost"]
    for constant, name, doc in (
        ("PARAMETERS", "SlurmParameters", "The cluster-wide keys of slurm.conf."),
        ("PARTITION", "PartitionParameters", "The keys of a PartitionName line."),
        ("CGROUP", "CgroupParameters", "The keys of cgroup.conf."),
        ("SLURMDBD", "SlurmdbdParameters", "The keys of slurmdbd.conf."),
        ("ACCT_GATHER", "AcctGatherParameters", "The keys of acct_gather.conf."),
        ("BURST_BUFFER", "BurstBufferParameters", "The keys of burst_buffer.conf."),
    ):
        out += record_lines(tables[constant], name, doc)
    texts["records.py"] = out
    return {TABLES / name: "\n".join(lines) + "\n" for name, lines in texts.items()}

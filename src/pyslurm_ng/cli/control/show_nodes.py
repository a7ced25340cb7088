"""scontrol show node and show partition."""

from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SHOW_ALL, SHOW_FUTURE
from pyslurm_ng.base.preempt_words import preempt_text
from pyslurm_ng.base.state_names import node_state_full, shown_flags
from pyslurm_ng.cli.command import Table
from pyslurm_ng.cli.control.session import null, print_record
from pyslurm_ng.cli.listing.list_format import Dates, long_limit
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Session

    Row = dict[str, Any]


# Nodes ----------------------------------------------------------------------------------------


def show_node(session: "Session", words: "list[str]") -> int:
    """Print nodes: all, or those of a host list."""
    flags = SHOW_ALL | (SHOW_FUTURE if session.future or words else 0)
    try:
        reply = session.client.call("ShowNodes", {"nodes": words[0] if words else "",
                                                  "flags": flags})  # fmt: skip
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        names = _names(words[0]) if words else []
        if detail and len(names) > 1:
            return max([show_node(session, [name]) for name in names])
        if detail:
            session.miss(f"Node {detail} not found")
        else:
            session.complain(f"slurm_load_node error: {text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    for row in rows:
        row["flags"] = shown_flags(
            row["flags"], is_planned=row["is_planned"], is_blocked=row["is_blocked"]
        )
    if session.json:
        from pyslurm_ng.cli.documents import print_records
        from pyslurm_ng.data_parser.nodes import node_object

        return print_records(session.json, "nodes", [node_object(row, "") for row in rows], reply)
    session.count(reply, rows)
    if not rows:
        print("No nodes in the system")
    dates = Dates(reply["now_us"])
    for row in rows:
        print_record(session, node_lines(row, dates, session.detail))
    return 0


def _names(text: str) -> "list[str]":
    """Return the names of a host list, none if it is not one."""
    from pyslurm_ng.base.hostlist import HostlistError, expand_unique

    try:
        return expand_unique(text)
    except HostlistError:
        return []


def load_text(hundredths: int) -> str:
    """Return a load average; N/A before a node has reported one."""
    return f"{hundredths // 100}.{hundredths % 100:02d}" if hundredths >= 0 else "N/A"


def node_lines(row: "Row", dates: Dates, detail: int) -> "list[str]":
    """Return the lines of one node."""
    from pyslurm_ng.cli.command import user_name

    free = row["free_mem_mib"]
    arch = f" Arch={row['arch']}" if row["arch"] else ""
    version = f" Version={row['version']}" if row["version"] else ""
    lines = [
        f"NodeName={row['name']}{arch}{_bind(row)} CoresPerSocket={row['cores']} ",
        f"CPUAlloc={row['cpus_alloc']} CPUEfctv={row['cpus_effective']} CPUTot={row['cpus']}"
        f" CPULoad={load_text(row['cpu_load_hundredths'])}",
        f"AvailableFeatures={null(row['features'])}",
        f"ActiveFeatures={null(row['active_features'])}",
        f"Gres={null(row['gres'])}",
    ]
    if detail:
        lines.append(f"GresDrain={row['gres_drain'] or 'N/A'}")
        if row["gres_used"]:
            lines.append(f"GresUsed={row['gres_used']}")
    lines.append(
        f"NodeAddr={row['address']} NodeHostName={row['hostname']} Port={row['port']}{version}"
    )
    if row["os"]:
        lines.append(f"OS={row['os']}")
    lines.append(
        f"RealMemory={row['memory_mib']} AllocMem={row['memory_alloc_mib']}"
        f" FreeMem={free if free >= 0 else 'N/A'} Sockets={row['sockets']} Boards={row['boards']}"
    )
    special = []
    for key, field in (
        ("CoreSpecCount", "core_spec_count"),
        ("CPUSpecList", "cpu_spec_list"),
        ("MemSpecLimit", "mem_spec_limit_mib"),
        ("RestrictedCoresPerGPU", "restricted_cores"),
    ):
        if row[field]:
            special.append(f"{key}={row[field]}")
    if special:
        lines.append(" ".join(special))
    uid, suspend_s = row["owner_uid"], row["suspend_time_s"]
    owner = f"{user_name(uid)}({uid})" if uid >= 0 else "N/A"
    lines += [
        f"State={node_state_full(row['state'], row['flags'])} ThreadsPerCore={row['threads']}"
        f" TmpDisk={row['tmp_disk_mib']} Weight={row['weight']} Owner={owner}"
        f" MCS_label={row['mcs_label'] or 'N/A'}",
        *([f"NextState={row['next_state']}"] if row["next_state"] else ()),
        f"Partitions={','.join(row['partitions'])} ",
        f"BootTime={dates.text(row['boot_us'], 'None')}"
        f" SlurmdStartTime={dates.text(row['slurmd_start_us'], 'None')}",
        f"LastBusyTime={dates.text(row['last_busy_us'], 'Unknown')}"
        f" ResumeAfterTime={dates.text(row['resume_after_us'], 'None')}"
        f" SuspendTime={'INFINITE' if suspend_s == INFINITE else suspend_s}",
        f"CfgTRES={row['tres']}",
        f"AllocTRES={row['tres_alloc']}",
        f"CurrentWatts={row['watts']} AveWatts={row['mean_watts']}",
    ]
    if row["reason"]:
        stamp = f" [{user_name(row['reason_uid'])}@{dates.text(row['reason_us'])}]"
        lines.append(f"Reason={row['reason']}{stamp if row['reason_us'] else ''}")
    for key, field in (("Comment", "comment"), ("Extra", "extra"), ("InstanceId", "instance_id"),
                       ("InstanceType", "instance_type"), ("ReservationName", "reservation"),
                       ("Topology", "topology")):  # fmt: skip
        if row[field]:
            lines.append(f"{key}={row[field]}")
    return lines


# Partitions -----------------------------------------------------------------------------------


def show_partition(session: "Session", words: "list[str]") -> int:
    """Print partitions: all, or those named."""
    flags = SHOW_ALL if session.all else 0
    try:
        reply = session.client.call("ShowPartitions", {"flags": flags})
    except SlurmError as error:
        session.complain(f"slurm_load_partitions error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if words:
        rows = [row for row in rows if row["name"] == words[0]]
        if not rows:
            session.miss(f"Partition {words[0]} not found")
            return 1
    if session.json:
        from pyslurm_ng.cli.documents import print_records
        from pyslurm_ng.data_parser.nodes import partition_object

        return print_records(session.json, "partitions", map(partition_object, rows), reply)
    session.count(reply, rows)
    if not rows:
        print("No partitions in the system")
    for row in rows:
        print_record(session, partition_lines(row, session.preempt_mode))
    return 0


def _yes(value: bool) -> str:
    return "YES" if value else "NO"


def _everybody(words: "list[str]") -> str:
    return ",".join(words) or "ALL"


def _unlimited(count: int) -> "str | int":
    return "UNLIMITED" if count >= NO_VAL else count


def _bind(row: "Row") -> str:
    """Return the default binding of a node or a partition, nothing where none is set."""
    kind = row["cpu_bind"]
    return f" CpuBind={kind}{'s' * (kind != 'none')}" if kind else ""


def _power_times(row: "Row") -> "list[str]":
    """Return the line of a partition's own times of power saving, none where it has none."""
    names = ("ResumeTimeout", "SuspendTimeout", "SuspendTime")
    times = (row["resume_timeout_s"], row["suspend_timeout_s"], row["suspend_time_s"])
    if all(time_s == NO_VAL for time_s in times) and not row["power_down_on_idle"]:
        return []
    special = {NO_VAL: "GLOBAL", INFINITE: "INFINITE"}
    shown = [
        f"{name}={special.get(time_s, time_s)}" for name, time_s in zip(names, times, strict=True)
    ]
    return [f"{' '.join(shown)} PowerDownOnIdle={_yes(row['power_down_on_idle'])}"]


def partition_lines(row: "Row", preempt_mode: str) -> "list[str]":
    """Return the lines of one partition."""
    accounts = f"AllowAccounts={_everybody(row['allow_accounts'])}"
    if row["deny_accounts"] and not row["allow_accounts"]:
        accounts = f"DenyAccounts={','.join(row['deny_accounts'])}"
    qos = f"AllowQos={_everybody(row['allow_qos'])}"
    if row["deny_qos"] and not row["allow_qos"]:
        qos = f"DenyQos={','.join(row['deny_qos'])}"
    alternate = f" Alternate={row['alternate']}" if row["alternate"] else ""
    bind = _bind(row)
    over = row["over_time_limit_min"]
    own_mode = preempt_text(row["preempt_mode"].split(","))
    over_text = "NONE" if over == NO_VAL else _unlimited(over)
    if row["def_mem_per_cpu_mib"]:
        memory = f"DefMemPerCPU={row['def_mem_per_cpu_mib']}"
    else:
        memory = f"DefMemPerNode={row['def_mem_per_node_mib'] or 'UNLIMITED'}"
    if row["max_mem_per_cpu_mib"]:
        memory += f" MaxMemPerCPU={row['max_mem_per_cpu_mib']}"
    else:
        memory += f" MaxMemPerNode={row['max_mem_per_node_mib'] or 'UNLIMITED'}"
    lines = [
        f"PartitionName={row['name']}",
        f"AllowGroups={_everybody(row['allow_groups'])} {accounts} {qos}",
        f"AllocNodes={row['alloc_nodes'] or 'ALL'}{alternate}"
        f" Default={_yes(row['is_default'])}{bind}"
        f" QoS={row['qos'] or 'N/A'}",
        f"DefaultTime={long_limit(row['default_time_min'], 'NONE')}"
        f" DisableRootJobs={_yes(row['disable_root_jobs'])} Exclusive={row['exclusive']}"
        f" GraceTime={row['grace_time_s']} Hidden={_yes(row['hidden'])}",
        f"MaxNodes={_unlimited(row['max_nodes'])} MaxTime={long_limit(row['max_time_min'])}"
        f" MinNodes={row['min_nodes']} LLN={_yes(row['lln'])}"
        f" MaxCPUsPerNode={_unlimited(row['max_cpus_per_node'])}"
        f" MaxCPUsPerSocket={_unlimited(row['max_cpus_per_socket'])}",
        *([f"NodeSets={row['node_sets']}"] if row["node_sets"] else []),
        f"Nodes={null(row['nodes'])}",
        f"PriorityJobFactor={row['priority_job_factor']} PriorityTier={row['priority_tier']}"
        f" RootOnly={_yes(row['root_only'])} ReqResv={_yes(row['req_resv'])}"
        f" OverSubscribe={row['oversubscribe']}",
        f"OverTimeLimit={over_text} PreemptMode={own_mode or preempt_mode}",
    ]
    if row["topology"]:
        lines.append(f"Topology={row['topology']}")
    lines += [
        f"State={row['state']} TotalCPUs={row['total_cpus']} TotalNodes={row['total_nodes']}"
        f" SelectTypeParameters={row['select_type_parameters'].upper() or 'NONE'}",
        f"JobDefaults={null(row['job_defaults'])}",
        memory,
        f"TRES={null(row['tres'])}",
    ]
    if row["tres_billing_weights"]:
        lines.append(f"TRESBillingWeights={row['tres_billing_weights']}")
    return lines + _power_times(row)

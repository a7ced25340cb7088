"""scontrol show: job, step, node, partition, licenses, config, topology ..."""

import os

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.state_names import job_state, node_state_full
from pyslurm_ng.cli.command import Table, fail, say, split_list
from pyslurm_ng.cli.fmt import (
    INFINITE,
    NO_VALUE,
    SECOND_US,
    Dates,
    exit_text,
    long_limit,
    long_time,
    mem_text,
    signal_text,
    sluid_text,
)
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.scontrol import Session

    Row = dict[str, Any]

PENDING, RUNNING, SUSPENDED = 0, 1, 2
SHOW_ALL, SHOW_DETAIL, SHOW_FUTURE = 1, 2, 4
PLANNED = 1 << 21
REQ_REBOOT, REQ_CONTIGUOUS = 1 << 13, 1 << 10
REQ_HOLD, REQ_NTASKS_SET, REQ_NODES_SET = 1 << 0, 1 << 27, 1 << 30
REQ_SPREAD, REQ_KILL_INVALID_DEP = 1 << 11, 1 << 14
_MAIL = (
    (1, "BEGIN"),
    (2, "END"),
    (4, "FAIL"),
    (8, "REQUEUE"),
    (16, "TIME_LIMIT"),
    (32, "TIME_LIMIT_90"),
    (64, "TIME_LIMIT_80"),
    (128, "TIME_LIMIT_50"),
    (256, "STAGE_OUT"),
    (512, "ARRAY_TASKS"),
    (1024, "INVALID_DEPEND"),
)


def null(text: "str | int") -> "str | int":
    """Return what scontrol prints for an empty value."""
    return text or "(null)"


def star(count: int) -> "str | int":
    """Return a wish, or `*` where there is none."""
    return count or "*"


def print_record(session: "Session", lines: "list[str]") -> None:
    """Print one record: lines indented under the first, or all in one.

    What users wrote cannot begin a line of its own nor command the reader's terminal.
    """
    lines = [line if line.isprintable() else _printable(line) for line in lines]
    if session.oneliner:
        print(" ".join(lines))
    else:
        print("\n   ".join(lines) + "\n")


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in line)


# Jobs -----------------------------------------------------------------------------------------


def show_job(session: "Session", words: "list[str]") -> int:
    """Print jobs: all, or those of the ids given."""
    wanted: dict[str, Any] = {"all_states": True}
    if words:
        wanted["jobs"] = split_job_ids(words[0])
        for text in wanted["jobs"]:
            try:
                parse_job_id(text)
            except JobIdError:
                fail("scontrol: error: Invalid job id specified" if not text else
                     "slurm_load_jobs error: Invalid job id specified")  # fmt: skip
    if session.json:
        from pyslurm_ng.cli.job_json import print_jobs

        return print_jobs(session.json, session.client, wanted, session.all)
    flags = SHOW_DETAIL | (SHOW_ALL if session.all or words else 0)
    request = {"filter": wanted, "flags": flags}
    try:
        reply = session.client.call("ShowJobs", request)
    except SlurmError as error:
        say(f"slurm_load_jobs error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if not rows and not words:
        print("No jobs in the system")
        return 0
    if words:
        # The tasks of an array come as Slurm lists them: its own record, then the youngest first.
        rows.sort(key=_array_order)
    dates = Dates(reply["now_us"])
    for row in rows:
        print_record(session, job_lines(row, dates, session.detail))
    return 0


def _array_order(row: "Row") -> "tuple[int, bool, int]":
    array_id = row["array_job_id"]
    if not array_id:
        return row["job_id"], False, 0
    return array_id, row["job_id"] != array_id, -row["job_id"]


def job_lines(row: "Row", dates: Dates, detail: int) -> "list[str]":
    """Return the lines of one job."""
    lines = [_job_head(row)]
    if detail:
        lines.append(f"SLUID={sluid_text(row['submit_us'], row['job_id'])}")
    if row["het_job_id"]:
        lines.append(f"HetJobIdSet={row['het_job_ids']}")
    user = f"UserId={row['user_name']}({row['user_id']})"
    group = f"GroupId={row['group_name']}({row['group_id']})"
    lines.append(f"{user} {group} MCS_label={row['mcs_label'] or 'N/A'}")
    wckey = f" WCKey={row['wckey']}" if row["wckey"] else ""
    lines.append(
        f"Priority={row['priority']} Nice={row['nice']} Account={null(row['account'])}"
        f" QOS={null(row['qos'])}{wckey}"
    )
    failed = f" FailedNode={row['failed_node']}" if row["failed_node"] else ""
    reason = row["reason"]
    if row["reason_text"] and (row["state"] == PENDING or reason == "None"):
        reason = row["reason_text"].replace(" ", "_")
    if reason == "RaisedSignal":
        number = row["exit_code"] & 0x7F
        reason += f":{number}({signal_text(number)})"
    lines.append(
        f"JobState={job_state(row['state'], row['flags'])} Reason={reason}{failed}"
        f" Dependency={null(row['dependency'])}"
    )
    reboot = 1 if row["request_flags"] & REQ_REBOOT else 0
    lines.append(
        f"Requeue={int(row['requeue'])} Restarts={row['attempt']} BatchFlag={int(row['is_batch'])}"
        f" Reboot={reboot} ExitCode={exit_text(row['exit_code'])}"
    )
    if detail:
        lines.append(f"DerivedExitCode={exit_text(row['derived_exit_code'])}")
    lines += _job_times(row, dates)
    lines += _job_place(row, detail)
    lines += _job_request(row)
    return lines


def _job_head(row: "Row") -> str:
    text = f"JobId={row['job_id']} "
    if row["array_job_id"]:
        task: str | int = row["array_task_id"]
        if row["array_tasks"]:
            limit = f"%{row['array_limit']}" if row["array_limit"] else ""
            task = row["array_tasks"] + limit
        text += f"ArrayJobId={row['array_job_id']} ArrayTaskId={task} "
        if row["array_limit"]:
            text += f"ArrayTaskThrottle={row['array_limit']} "
    if row["het_job_id"]:
        text += f"HetJobId={row['het_job_id']} HetJobOffset={row['het_offset']} "
    return f"{text}JobName={null(row['name'])}"


def job_start_us(row: "Row") -> int:
    """Return when a job started or is expected to; one that never ran started as it ended."""
    if row["state"] == PENDING:
        return int(row["expected_start_us"])
    return int(row["start_us"] or row["end_us"])


def job_end_us(row: "Row") -> int:
    """Return when a job ended or its limit ends it; 0 for nobody knows or never."""
    if row["end_us"]:  # of a running job too, when it has been preempted
        return int(row["end_us"])
    start_us, limit = job_start_us(row), row["time_limit_min"]
    if not start_us or limit >= NO_VALUE:
        return 0
    return int(start_us + row["suspended_us"] + limit * 60 * SECOND_US)


def _job_times(row: "Row", dates: Dates) -> "list[str]":
    from pyslurm_ng.cli.job_columns import ELAPSED, elapsed_s

    text = dates.text
    run_time = long_time(elapsed_s(dates.now_us, *[row[name] for name in ELAPSED]))
    eligible_us = row["eligible_us"]
    if not eligible_us and row["begin_us"] > dates.now_us and not row["dependency"]:
        eligible_us = row["begin_us"]
    is_held = row["state"] == PENDING and not row["priority"]
    accrue_us = 0 if is_held else row["accrue_us"]
    lines = [
        f"RunTime={run_time} TimeLimit={long_limit(row['time_limit_min'])}"
        f" TimeMin={long_limit(row['time_min_min'], 'N/A')}",
        f"SubmitTime={text(row['submit_us'], 'Unknown')}"
        f" EligibleTime={text(eligible_us, 'Unknown')}",
        f"AccrueTime={text(accrue_us, 'Unknown')}",
    ]
    if row["resize_us"]:
        lines.append(f"ResizeTime={text(row['resize_us'])}")
    end = text(job_end_us(row), "Unknown")
    if row["state"] in (RUNNING, SUSPENDED) and row["time_limit_min"] == INFINITE:
        end = "Unlimited"
    lines.append(
        f"StartTime={text(job_start_us(row), 'Unknown')} EndTime={end}"
        f" Deadline={text(row['deadline_us'])}"
    )
    if row["state"]:
        lines.append(
            f"PreemptEligibleTime={text(row['preemptable_us'] or job_start_us(row))}"
            f" PreemptTime={text(row['preempt_us'], 'None')}"
        )
    # A star: planned, not started.
    waits = row["state"] == PENDING and row["reason"] in ("Priority", "Resources")
    scheduler = "Backfill:*" if waits else row["scheduler"] or "Main"
    before_s = row["elapsed_before_us"] // SECOND_US if row["state"] == SUSPENDED else 0
    lines.append(
        f"SuspendTime={text(row['suspend_us'], 'None')} SecsPreSuspend={before_s}"
        f" LastSchedEval={text(row['last_eval_us'] or row['submit_us'], 'Unknown')}"
        f" Scheduler={scheduler}"
    )
    return lines


def node_count_text(row: "Row") -> str:
    """Return NumNodes: a count, or its bounds for a waiting job that named a size or came held."""
    bounded = REQ_NODES_SET | REQ_NTASKS_SET | (0 if row["priority"] else REQ_HOLD)
    if row["state"] or not row["request_flags"] & bounded:
        return str(row["node_count"])
    high = row["nodes_max"] or max(row["tasks"], row["node_count"])
    return f"{row['node_count']}-{high}"


def _job_place(row: "Row", detail: int) -> "list[str]":
    nodes = f"NodeList={row['nodes']}"
    if row["sched_nodes"]:
        nodes += f" SchedNodeList={row['sched_nodes']}"
    lines = [
        f"Partition={row['partition']} AllocNode:Sid={row['alloc_node']}:{row['alloc_sid']}",
        f"ReqNodeList={null(row['node_list'])} ExcNodeList={null(row['exclude'])}",
        nodes,
    ]
    if row["batch_host"]:
        lines.append(f"BatchHost={row['batch_host']}")
    never_ran = row["state"] > SUSPENDED and not row["nodes"] and not row["attempt"]
    tasks = "N/A" if never_ran else row["tasks"]
    lines.append(
        f"NumNodes={node_count_text(row)} NumCPUs={row['cpus']} NumTasks={tasks}"
        f" CPUs/Task={row['cpus_each']} ReqB:S:C:T=0:{row['sockets_per_node'] or 0}"
        f":{star(row['cores_per_socket'])}:{star(row['threads_per_core'])}"
    )
    lines.append(f"ReqTRES={null(row['tres_req'])}")
    lines.append(f"AllocTRES={null(row['tres_alloc'])}")
    core_spec = f"CoreSpec={star(row['core_spec'])}"
    if row["thread_spec"]:
        core_spec = f"ThreadSpec={row['thread_spec']}"
    lines.append(
        f"Socks/Node={star(row['sockets_per_node'])} NtasksPerN:B:S:C={row['ntasks_per_node']}:0"
        f":{star(row['ntasks_per_socket'])}:{star(row['ntasks_per_core'])} {core_spec}"
    )
    if detail and row["resources"]:
        lines.append(f"JOB_GRES={null(row['gres_alloc'])}")
        lines += _resource_lines(row["resources"])
    return lines


def _resource_lines(resources: "list[list[Any]]") -> "list[str]":
    """Return one line for each run of nodes that hold the same."""
    from pyslurm_ng.base.hostlist import fold

    lines: list[str] = []
    names: list[str] = []
    last: tuple[Any, ...] = ()
    for name, _, ids, mem, gres, *_ in [*resources, ["", 0, "", 0, ""]]:
        if names and (ids, mem, gres) != last:
            lines.append(f"  Nodes={fold(names)} CPU_IDs={last[0]} Mem={last[1]} GRES={last[2]}")
            names = []
        names.append(name)
        last = (ids, mem, gres)
    return lines


def memory_text(row: "Row") -> str:
    """Return MinMemoryCPU= or MinMemoryNode=."""
    if row["mem_per_cpu_mib"]:
        return f"MinMemoryCPU={mem_text(row['mem_per_cpu_mib'])}"
    mib = row["mem_per_node_mib"]
    return f"MinMemoryNode={mem_text(mib) if mib else 0}"


def _job_request(row: "Row") -> "list[str]":
    min_cpus = max(row["cpus_each"] * max(row["ntasks_per_node"], 1), row["mincpus"])
    contiguous = 1 if row["request_flags"] & REQ_CONTIGUOUS else 0
    lines = [
        f"MinCPUsNode={min_cpus} {memory_text(row)} MinTmpDiskNode={row['tmp_mib']}",
        f"Features={null(row['constraint'])} DelayBoot=00:00:00",
    ]
    for key, field in (
        ("ClusterFeatures", "cluster_features"),
        ("Prefer", "prefer"),
        ("Reservation", "reservation"),
    ):
        if row[field]:
            lines.append(f"{key}={row[field]}")
    lines.append(
        f"OverSubscribe={row['oversubscribe']} Exclusive={row['exclusive']}"
        f" Contiguous={contiguous} Licenses={null(row['licenses'])}"
        f" LicensesAlloc={null(row['licenses_alloc'])} Network={null(row['network'])}"
    )
    command = " ".join([row["command"], *row["argv"]]) if row["command"] else "(null)"
    lines += [f"Command={command}", f"SubmitLine={null(row['submit_line'])}"]
    lines.append(f"WorkDir={row['work_dir']}")
    for key, field in (
        ("AdminComment", "admin_comment"),
        ("SystemComment", "system_comment"),
        ("Comment", "comment"),
        ("Extra", "extra"),
    ):
        if row[field]:
            lines.append(f"{key}={row[field]}")
    if row["is_batch"]:
        lines += file_lines(row)
    lines += _job_wishes(row)
    return lines


def file_lines(row: "Row") -> "list[str]":
    """Return StdErr=, StdIn= and StdOut= with patterns replaced."""
    from pyslurm_ng.cli.file_names import default_stdout, expand

    def path(name: str) -> str:
        return expand(
            name,
            row["job_id"],
            row["array_job_id"],
            row["array_task_id"],
            row["user_name"],
            row["name"],
            row["batch_host"],
        )

    work_dir = row["work_dir"].rstrip("/")
    error = row["std_err"]
    if error and not error.startswith("/"):
        error = f"{work_dir}/{error}"
    std_in = row["std_in"] or "/dev/null"
    if not std_in.startswith("/"):
        std_in = f"{work_dir}/{std_in}"
    out = default_stdout(row["std_out"], row["work_dir"], row["array_job_id"])
    return [f"StdErr={path(error)}", f"StdIn={path(std_in)}", f"StdOut={path(out)}"]


def tres_per_task(row: "Row") -> str:
    """Return TresPerTask: --cpus-per-task, --gpus-per-task and --tres-per-task together."""
    words = []
    if row["cpus_per_task"]:
        words.append(f"cpu={row['cpus_per_task']}")
    words += [f"gres/gpu={word}" for word in row["gpus_per_task"].split(",") if word]
    if row["tres_per_task"]:
        words.append(row["tres_per_task"])
    return ",".join(words)


def _job_wishes(row: "Row") -> "list[str]":
    from pyslurm_ng.cli.job_columns import tres_list

    lines = []
    if row["segment"]:
        lines.append(f"SegmentSize={row['segment']}")
    if row["switches"]:
        wait = long_time(row["switches_wait_s"])
        lines.append(f"Switches={row['switches']}@{wait}")
    if row["burst_buffer"]:
        lines.append(f"BurstBuffer={row['burst_buffer']}")
    if row["request_flags"] & REQ_KILL_INVALID_DEP:
        lines.append("KillOnInvalidDependent=Yes")
    if row["request_flags"] & REQ_SPREAD:
        lines.append("SpreadJob=Yes")
    per_gpu = row["mem_per_gpu_mib"]
    for key, text in (
        ("CpusPerTres", f"gres/gpu:{row['cpus_per_gpu']}" if row["cpus_per_gpu"] else ""),
        ("MemPerTres", f"gres/gpu:{per_gpu}" if per_gpu else ""),
        ("TresBind", row["tres_bind"]),
        ("TresFreq", row["tres_freq"]),
        ("TresPerJob", tres_list("", "", "gres/gpu:", row["gpus"])),
        ("TresPerNode", tres_list("gres/", row["gres"], "gres/gpu:", row["gpus_per_node"])),
        ("TresPerSocket", tres_list("", "", "gres/gpu:", row["gpus_per_socket"])),
        ("TresPerTask", tres_per_task(row)),
    ):
        if text:
            lines.append(f"{key}={text}")
    if row["mail_type"]:
        words = ",".join(word for bit, word in _MAIL if row["mail_type"] & bit)
        lines.append(f"MailUser={row['mail_user'] or row['user_name']} MailType={words}")
    if row["container"]:
        lines.append(f"Container={row['container']}")
    return lines


# Steps ----------------------------------------------------------------------------------------


def show_step(session: "Session", words: "list[str]") -> int:
    """Print running steps: all, of jobs, or single ones."""
    from pyslurm_ng.cli.squeue_steps import STEP_ID, step_id_text

    if session.json:
        fail("scontrol: error: --json of steps is not supported yet")
    steps = split_job_ids(words[0]) if words else []
    try:
        reply = session.client.call("ShowSteps", {"steps": steps, "flags": SHOW_ALL})
    except SlurmError as error:
        say(f"slurm_get_job_steps error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if not rows:
        if words:
            print(f"Job step {words[0]} not found")
            return 1
        print("No job steps in the system")
        return 0
    dates = Dates(reply["now_us"])
    for row in rows:
        text = step_id_text(*[row[name] for name in STEP_ID])
        word = row["distribution"]
        dist = f" Dist={word[0].upper()}{word[1:]}" if word else ""
        limit = row["time_limit_min"]
        lines = [
            f"StepId={text} UserId={row['user_id']} StartTime={dates.text(row['start_us'])}"
            f" TimeLimit={long_limit(limit)}",
            f"State={job_state(row['state'], 0)} Partition={row['partition']}"
            f" NodeList={row['nodes']}",
            f"Nodes={row['node_count']} CPUs={row['cpus']} Tasks={row['tasks']}"
            f" Name={row['name']} Network={null(row['network'])}",
            f"TRES={null(row['tres'])}",
            "ResvPorts=(null)",
            f"CPUFreqReq=Default{dist}",
            f"SrunHost:Pid={null(row['srun_host'])}:{row['srun_pid']}",
        ]
        if row["tres_per_node"]:
            lines.append(f"TresPerNode={row['tres_per_node']}")
        print_record(session, lines)
    return 0


# Nodes ----------------------------------------------------------------------------------------


def show_node(session: "Session", words: "list[str]") -> int:
    """Print nodes: all, or those of a host list."""
    flags = SHOW_ALL | (SHOW_FUTURE if session.future or words else 0)
    try:
        reply = session.client.call("ShowNodes", {"nodes": words[0] if words else "",
                                                  "flags": flags})  # fmt: skip
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        if detail:
            print(f"Node {detail} not found")
        else:
            say(f"slurm_load_node error: {text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    for row in rows:
        row["flags"] |= PLANNED if row["is_planned"] else 0
    if session.json:
        from pyslurm_ng.cli.node_json import print_nodes

        return print_nodes(session.json, reply, rows)
    if not rows:
        print("No nodes in the system")
    dates = Dates(reply["now_us"])
    for row in rows:
        print_record(session, node_lines(row, dates, session.detail))
    return 0


def load_text(hundredths: int) -> str:
    """Return a load average, N/A before a node has told one."""
    return f"{hundredths // 100}.{hundredths % 100:02d}" if hundredths >= 0 else "N/A"


def node_lines(row: "Row", dates: Dates, detail: int) -> "list[str]":
    """Return the lines of one node."""
    from pyslurm_ng.cli.command import user_name

    free = row["free_mem_mib"]
    arch = f" Arch={row['arch']}" if row["arch"] else ""
    version = f" Version={row['version']}" if row["version"] else ""
    lines = [
        f"NodeName={row['name']}{arch} CoresPerSocket={row['cores']} ",
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
    owner = user_name(row["owner_uid"]) if row["owner_uid"] >= 0 else "N/A"
    lines += [
        f"State={node_state_full(row['state'], row['flags'])} ThreadsPerCore={row['threads']}"
        f" TmpDisk={row['tmp_disk_mib']} Weight={row['weight']} Owner={owner} MCS_label=N/A",
        f"Partitions={','.join(row['partitions'])} ",
        f"BootTime={dates.text(row['boot_us'], 'None')}"
        f" SlurmdStartTime={dates.text(row['slurmd_start_us'], 'None')}",
        f"LastBusyTime={dates.text(row['last_busy_us'], 'Unknown')}"
        f" ResumeAfterTime={dates.text(row['resume_after_us'], 'None')} SuspendTime=INFINITE",
        f"CfgTRES={row['tres']}",
        f"AllocTRES={row['tres_alloc']}",
        "CurrentWatts=0 AveWatts=0",
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
    flags = SHOW_ALL if session.all or words else 0
    try:
        reply = session.client.call("ShowPartitions", {"flags": flags})
    except SlurmError as error:
        say(f"slurm_load_partitions error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if words:
        names = split_list(words[0])
        rows = [row for row in rows if row["name"] in names]
        if not rows:
            print(f"Partition {words[0]} not found")
            return 1
    if session.json:
        from pyslurm_ng.cli.node_json import print_partitions

        return print_partitions(session.json, reply, rows)
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
    return "UNLIMITED" if count >= NO_VALUE else count


def partition_lines(row: "Row", preempt_mode: str) -> "list[str]":
    """Return the lines of one partition."""
    accounts = f"AllowAccounts={_everybody(row['allow_accounts'])}"
    if row["deny_accounts"] and not row["allow_accounts"]:
        accounts = f"DenyAccounts={','.join(row['deny_accounts'])}"
    qos = f"AllowQos={_everybody(row['allow_qos'])}"
    if row["deny_qos"] and not row["allow_qos"]:
        qos = f"DenyQos={','.join(row['deny_qos'])}"
    bind = f" CpuBind={row['cpu_bind']}" if row["cpu_bind"] else ""
    over = row["over_time_limit_min"]
    over_text = "NONE" if over == NO_VALUE else _unlimited(over)
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
        f"AllocNodes={row['alloc_nodes'] or 'ALL'} Default={_yes(row['is_default'])}{bind}"
        f" QoS={row['qos'] or 'N/A'}",
        f"DefaultTime={long_limit(row['default_time_min'], 'NONE')}"
        f" DisableRootJobs={_yes(row['disable_root_jobs'])} Exclusive={row['exclusive']}"
        f" GraceTime={row['grace_time_s']} Hidden={_yes(row['hidden'])}",
        f"MaxNodes={_unlimited(row['max_nodes'])} MaxTime={long_limit(row['max_time_min'])}"
        f" MinNodes={row['min_nodes']} LLN={_yes(row['lln'])}"
        f" MaxCPUsPerNode={_unlimited(row['max_cpus_per_node'])}"
        f" MaxCPUsPerSocket={_unlimited(row['max_cpus_per_socket'])}",
        f"Nodes={null(row['nodes'])}",
        f"PriorityJobFactor={row['priority_job_factor']} PriorityTier={row['priority_tier']}"
        f" RootOnly={_yes(row['root_only'])} ReqResv={_yes(row['req_resv'])}"
        f" OverSubscribe={row['oversubscribe']}",
        f"OverTimeLimit={over_text} PreemptMode={row['preempt_mode'] or preempt_mode}",
    ]
    if row["topology"]:
        lines.append(f"Topology={row['topology']}")
    lines += [
        f"State={row['state']} TotalCPUs={row['total_cpus']} TotalNodes={row['total_nodes']}"
        f" SelectTypeParameters={row['select_type_parameters'] or 'NONE'}",
        f"JobDefaults={null(row['job_defaults'])}",
        memory,
        f"TRES={row['tres']}",
    ]
    if row["tres_billing_weights"]:
        lines.append(f"TRESBillingWeights={row['tres_billing_weights']}")
    return lines


# The rest -------------------------------------------------------------------------------------


def show_licenses(session: "Session", words: "list[str]") -> int:
    """Print licences."""
    try:
        reply = session.client.call("ShowLicenses", {"names": words})
    except SlurmError as error:
        say(f"slurm_load_licenses error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if session.json:
        from pyslurm_ng.cli.node_json import print_licenses

        return print_licenses(session.json, reply, rows)
    if not rows:
        if words:
            print(f"License {words[0]} not found")
            return 1
        print("No licenses configured in Slurm.")
    for row in rows:
        first = f"LicenseName={row['name']}"
        rest = (
            f"Total={row['total']} Used={row['used']} Free={row['free']}"
            f" Reserved={row['reserved']} Remote={'yes' if row['remote'] else 'no'}"
        )
        print(f"{first} {rest}" if session.oneliner else f"{first}\n    {rest}")
    return 0


def show_config(session: "Session", words: "list[str]") -> int:
    """Print the running configuration."""
    lines = config_lines(session)
    if isinstance(lines, int):
        return lines
    print("\n".join(lines))
    print()
    return session.ping()


def config_lines(session: "Session") -> "list[str] | int":
    """Return the configuration as `show config` prints it, or an exit code."""
    try:
        reply = session.client.call("ShowConfig", {})
    except SlurmError as error:
        say(f"slurm_load_ctl_conf error: {error.text}")
        return 1
    moment = Dates(reply["now_us"]).text(reply["now_us"])
    return [f"Configuration data as of {moment}", *reply["lines"]]


def show_topology(session: "Session", words: "list[str]") -> int:
    """Print the network topology, of all or of one node or switch."""
    request = {"node": "", "unit": ""}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            request["unit"] = key
        elif key.lower() == "node":
            request["node"] = value
        elif key.lower() in ("switch", "unit", "block"):
            request["unit"] = value
        else:
            fail(f"invalid entity:{word} for keyword:show topology")
    try:
        reply = session.client.call("ShowTopology", request)
    except SlurmError as error:
        say(f"slurm_load_topo error: {error.text.rpartition(chr(10))[2]}")
        return 1
    for line in reply["lines"]:
        print(line)
    return 0


def show_hostnames(session: "Session", words: "list[str]") -> int:
    """Print the names of a host list, by default those of the job around us."""
    from pyslurm_ng.base.hostlist import HostlistError, expand

    text = words[0] if words else os.environ.get("SLURM_JOB_NODELIST", "")
    if not text:
        text = os.environ.get("SLURM_NODELIST", "")
    if not text:
        say("SLURM_JOB_NODELIST environment variable not set and no hostlist provided")
        return 1
    try:
        names = expand(text)
    except HostlistError as problem:
        say(str(problem))
        return 1
    if names:
        print("\n".join(names))
    return 0


def show_hostlist(session: "Session", words: "list[str]", *, in_order: bool = False) -> int:
    """Print names as one list; a word that begins with / names a file of them."""
    from pyslurm_ng.base.hostlist import HostlistError, expand, fold, fold_sorted

    if not words:
        fail("too few arguments for keyword:show")
    text = words[0]
    if text.startswith("/"):
        try:
            with open(text, encoding="utf-8") as stream:
                text = ",".join(stream.read().split())
        except (OSError, UnicodeDecodeError) as problem:
            fail(f"scontrol: error: {text}: {problem}")
    try:
        names = expand(text)
    except HostlistError as problem:
        say(str(problem))
        return 1
    print(fold_sorted(names) if in_order else fold(names))
    return 0

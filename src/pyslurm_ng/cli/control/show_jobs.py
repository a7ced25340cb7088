"""scontrol show job and show step."""

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.numbers import (
    INFINITE,
    JOB_CANCELLED,
    JOB_PENDING,
    JOB_RUNNING,
    JOB_SUSPENDED,
    NO_VAL,
    REQ_CONSOLIDATE_SEGMENTS,
    REQ_CONTIGUOUS,
    REQ_EXPEDITE,
    REQ_GRES_DISABLE_BIND,
    REQ_GRES_ENFORCE_BIND,
    REQ_KILL_INVALID_DEP,
    REQ_NO_SPECIAL_CORES,
    REQ_REBOOT,
    REQ_SPREAD,
    REQ_SPREAD_SEGMENTS,
    REQ_STEPMGR,
    SECOND_US,
    SHOW_ALL,
    SHOW_DETAIL,
    STEP_BATCH,
)
from pyslurm_ng.base.state_names import job_state
from pyslurm_ng.cli.command import Table, fail
from pyslurm_ng.cli.control.session import null, print_record, star
from pyslurm_ng.cli.listing.list_format import (
    STEP_ID,
    Dates,
    cut_tasks,
    exit_text,
    long_limit,
    long_time,
    mem_text,
    signal_text,
    sluid_text,
    step_id_text,
)
from pyslurm_ng.cli.request_parts import show_all
from pyslurm_ng.data_parser.job_values import most_nodes, was_planned
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Session

    Row = dict[str, Any]


# Jobs -----------------------------------------------------------------------------------------


def show_job(session: "Session", words: "list[str]") -> int:
    """Print jobs: all, or those of the ids given."""
    job_filter: dict[str, Any] = {"all_states": True}
    if words:
        job_filter["jobs"] = split_job_ids(words[0])
        for text in job_filter["jobs"]:
            try:
                parse_job_id(text)
            except JobIdError:
                fail("scontrol: error: Invalid job id specified" if not text else
                     "scontrol_print_job error: Invalid job id specified")  # fmt: skip
    if session.json:
        from pyslurm_ng.cli.listing.job_documents import print_jobs

        try:
            return print_jobs(session.json, session.client, job_filter, session.all)
        except SlurmError as error:
            session.complain(f"slurm_load_jobs error: {error.text}")
            return 1
    flags = SHOW_DETAIL | (SHOW_ALL if session.all or words else 0)
    request = {"filter": job_filter, "flags": flags}
    try:
        reply = show_all(session.client, "ShowJobs", request)
    except SlurmError as error:
        if words and "_" in words[0] and _is_known(session, words[0].partition("_")[0]):
            session.miss(f"Job {words[0]} not found")
        else:
            session.complain(f"slurm_load_jobs error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if words and "_" in words[0]:
        rows = [row for row in rows if not _never_split(row)]
    session.count(reply, rows)
    if not rows and not words:
        print("No jobs in the system")
        return 0
    if not rows and "," in words[0]:
        session.complain("slurm_load_jobs error: Invalid job id specified")
        return 1
    if not rows:
        # There is one, but not for this user, or it is an array's task that was struck off.
        session.miss(f"Job {words[0]} not found")
        return 1
    if words:
        # The tasks of an array come as Slurm lists them: its own record, then the youngest first.
        rows.sort(key=_array_order)
    dates = Dates(reply["now_us"])
    for row in rows:
        print_record(session, job_lines(row, dates, session.detail))
    return 0


def _is_known(session: "Session", array: str) -> bool:
    """Return whether there is an array of this id, or what is left of it."""
    try:
        session.client.call("ShowJobs", {"filter": {"jobs": [array], "all_states": True}})
    except SlurmError:
        return False
    return True


def _never_split(row: "Row") -> bool:
    """Return whether a row is an array's task that was cancelled while it waited.

    Slurm strikes such tasks off the array, and keeps no record of theirs.
    """
    is_task = row["array_task_id"] != NO_VAL and row["job_id"] != row["array_job_id"]
    return is_task and row["state"] == JOB_CANCELLED and not row["start_us"]


def _array_order(row: "Row") -> "tuple[int, bool, int]":
    array_id = row["array_job_id"]
    if not array_id:
        return row["job_id"], False, 0
    return array_id, row["job_id"] != array_id, -row["job_id"]


def job_lines(row: "Row", dates: Dates, detail: int) -> "list[str]":
    """Return the lines of one job."""
    lines = [_job_head(row)]
    if detail:
        lines.append(f"SLUID={sluid_text(row['submit_us'], row['resize_us'], row['job_id'])}")
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
    if row["reason_text"] and (row["state"] == JOB_PENDING or reason == "None"):
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
            task = cut_tasks(row["array_tasks"]) + limit
        text += f"ArrayJobId={row['array_job_id']} ArrayTaskId={task} "
        if row["array_limit"]:
            text += f"ArrayTaskThrottle={row['array_limit']} "
    if row["het_job_id"]:
        text += f"HetJobId={row['het_job_id']} HetJobOffset={row['het_offset']} "
    return f"{text}JobName={row['name']}"


def job_start_us(row: "Row") -> int:
    """Return when a job started or is expected to; if it never ran, when it ended."""
    if row["state"] == JOB_PENDING:
        return int(row["expected_start_us"])
    return int(row["start_us"] or row["end_us"])


def job_end_us(row: "Row") -> int:
    """Return when a job ended or when its limit ends it; 0 for unknown or never."""
    if row["end_us"]:  # of a running job too, when it has been preempted
        return int(row["end_us"])
    start_us, limit = job_start_us(row), row["time_limit_min"]
    if not start_us or limit >= NO_VAL:
        return 0
    return int(start_us + row["suspended_us"] + limit * 60 * SECOND_US)


def _job_times(row: "Row", dates: Dates) -> "list[str]":
    from pyslurm_ng.cli.listing.job_columns import ELAPSED, elapsed_s, eligible_us

    text = dates.text
    run_time = long_time(elapsed_s(dates.now_us, *[row[name] for name in ELAPSED]))
    when_us = eligible_us(dates.now_us, row["eligible_us"], row["begin_us"], row["dependency"])
    is_held = row["state"] == JOB_PENDING and not row["priority"]
    accrue_us = 0 if is_held else row["accrue_us"]
    lines = [
        f"RunTime={run_time} TimeLimit={long_limit(row['time_limit_min'])}"
        f" TimeMin={long_limit(row['time_min_min'], 'N/A')}",
        f"SubmitTime={text(row['submit_us'], 'Unknown')} EligibleTime={text(when_us, 'Unknown')}",
        f"AccrueTime={text(accrue_us, 'Unknown')}",
    ]
    if row["resize_us"]:
        lines.append(f"ResizeTime={text(row['resize_us'])}")
    end = text(job_end_us(row), "Unknown")
    if row["state"] in (JOB_RUNNING, JOB_SUSPENDED) and row["time_limit_min"] == INFINITE:
        end = "Unlimited"
    lines.append(
        f"StartTime={text(job_start_us(row), 'Unknown')} EndTime={end}"
        f" Deadline={text(row['deadline_us'])}"
    )
    if row["cron"]:
        lines.append(f'CronJob=Yes CrontabSpec="{row["cron"]}"')
    if row["state"]:
        lines.append(
            f"PreemptEligibleTime={text(row['preemptable_us'] or job_start_us(row))}"
            f" PreemptTime={text(row['preempt_us'], 'None')}"
        )
    # A star: planned, not started.
    planned = was_planned(row["state"], row["reason"])
    scheduler = "Backfill:*" if planned else row["scheduler"] or "Main"
    before_s = row["elapsed_before_us"] // SECOND_US
    lines.append(
        f"SuspendTime={text(row['suspend_us'], 'None')} SecsPreSuspend={before_s}"
        f" LastSchedEval={text(row['last_eval_us'] or row['submit_us'], 'Unknown')}"
        f" Scheduler={scheduler}"
    )
    return lines


def node_count_text(row: "Row") -> str:
    """Return NumNodes: a count, or bounds for a waiting job that named a size or was held."""
    high = row["state"] == JOB_PENDING and most_nodes(
        row["request_flags"], row["priority"], row["nodes_max"], row["tasks"], row["node_count"]
    )
    # The count is what the tasks need, which may be more than the job allows.
    return f"{min(row['node_count'], high)}-{high}" if high else str(row["node_count"])


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
    never_ran = row["state"] > JOB_SUSPENDED and not row["nodes"] and not row["attempt"]
    tasks = "N/A" if never_ran else row["tasks"]
    lines.append(
        f"NumNodes={node_count_text(row)} NumCPUs={row['cpus']} NumTasks={tasks}"
        f" CPUs/Task={row['cpus_each']} ReqB:S:C:T=0:0"
        f":{star(row['cores_per_socket'])}:{star(row['threads_per_core'])}"
    )
    lines.append(f"ReqTRES={null(row['tres_req'])}")
    lines.append(f"AllocTRES={null(row['tres_alloc'])}")
    core_spec = f"CoreSpec={star(row['core_spec'])}"
    if row["request_flags"] & REQ_NO_SPECIAL_CORES and not row["core_spec"]:
        core_spec = "CoreSpec=0"
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
    """Return one line for each run of nodes with equal allocations."""
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
    delay = long_time(row["delay_boot_min"] * 60 if row["delay_boot_min"] < NO_VAL else 0)
    disk = mem_text(row["tmp_mib"]) if row["tmp_mib"] else 0
    lines = [
        f"MinCPUsNode={min_cpus} {memory_text(row)} MinTmpDiskNode={disk}",
        f"Features={null(row['constraint'])} DelayBoot={delay}",
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
    from pyslurm_ng.data_parser.job_values import default_stdout, expanded
    from pyslurm_ng.model.output_names import absolute

    def path(name: str) -> str:
        return expanded(name, row, STEP_BATCH, row["batch_host"])

    work_dir = row["work_dir"].rstrip("/")
    error = row["std_err"]
    if error and not error.startswith("/"):
        error = f"{work_dir}/{error}"
    std_in = absolute(row["std_in"] or "none", row["work_dir"])
    out = default_stdout(row["std_out"], row["work_dir"], row["array_job_id"])
    return [f"StdErr={path(error)}", f"StdIn={path(std_in)}", f"StdOut={path(out)}"]


def _job_wishes(row: "Row") -> "list[str]":
    from pyslurm_ng.data_parser.job_values import tres_list, tres_of_task

    lines = []
    if row["segment"]:
        ways = (
            (REQ_SPREAD_SEGMENTS, " SpreadSegments=Yes"),
            (REQ_CONSOLIDATE_SEGMENTS, " ConsolidateSegments=Yes"),
        )
        chosen = (text for flag, text in ways if row["request_flags"] & flag)
        lines.append(f"SegmentSize={row['segment']}{''.join(chosen)}")
    if row["switches"]:
        wait = long_time(row["switches_wait_s"])
        lines.append(f"Switches={row['switches']}@{wait}")
    if row["burst_buffer"]:
        first, *more = row["burst_buffer"].splitlines()
        lines += [f"BurstBuffer={first}", *more]
    if row["burst_buffer_state"]:
        lines.append(f"BurstBufferState={row['burst_buffer_state']}")
    for flag, word in ((REQ_GRES_DISABLE_BIND, "No"), (REQ_GRES_ENFORCE_BIND, "Yes")):
        if row["request_flags"] & flag:
            lines.append(f"GresEnforceBind={word}")
    if row["request_flags"] & REQ_KILL_INVALID_DEP:
        lines.append("KillOnInvalidDependent=Yes")
    if row["request_flags"] & REQ_SPREAD:
        lines.append("SpreadJob=Yes")
    if row["request_flags"] & REQ_EXPEDITE:
        lines.append("ExpeditedRequeue=Yes")
    if row["request_flags"] & REQ_STEPMGR:
        lines.append("StepMgrEnabled=Yes")
    per_gpu = row["mem_per_gpu_mib"]
    for key, text in (
        ("CpusPerTres", f"gres/gpu:{row['cpus_per_gpu']}" if row["cpus_per_gpu"] else ""),
        ("MemPerTres", f"gres/gpu:{per_gpu}" if per_gpu else ""),
        ("TresBind", row["tres_bind"]),
        ("TresFreq", row["tres_freq"]),
        ("TresPerJob", tres_list("", "", "gres/gpu:", row["gpus"])),
        ("TresPerNode", tres_list("gres/", row["gres"], "gres/gpu:", row["gpus_per_node"])),
        ("TresPerSocket", tres_list("", "", "gres/gpu:", row["gpus_per_socket"])),
        (
            "TresPerTask",
            tres_of_task(row["cpus_per_task"], row["gpus_per_task"], row["tres_per_task"]),
        ),
        ("NtasksPerTRES", row["ntasks_per_gpu"]),
    ):
        if text:
            lines.append(f"{key}={text}")
    if row["mail_type"]:
        from pyslurm_ng.base.request_words import mail_words

        words = ",".join(mail_words(row["mail_type"]))
        lines.append(f"MailUser={row['mail_user'] or row['user_name']} MailType={words}")
    if row["container"]:
        lines.append(f"Container={row['container']}")
    return lines


# Steps ----------------------------------------------------------------------------------------


_CONTAINER_ID = "container-id="


def show_step(session: "Session", words: "list[str]") -> int:
    """Print running steps: all, of jobs, single ones, or those of one container-id=."""
    is_name, container = False, ""
    if words and words[0].lower().startswith(_CONTAINER_ID):
        is_name, container = True, words[0][len(_CONTAINER_ID) :]
    steps = split_job_ids(words[0]) if words and not is_name else []
    try:
        reply = show_all(session.client, "ShowSteps", {"steps": steps, "flags": SHOW_ALL}, "steps")
    except SlurmError as error:
        session.complain(f"slurm_get_job_steps error: {error.text}")
        return 1
    table = Table(reply["fields"], reply["records"], reply["fields"])
    rows = table.dicts()
    if is_name:
        rows = [row for row in rows if row["container_id"] == container]
    if session.json:
        from pyslurm_ng.cli.listing.step_json import print_steps

        return print_steps(session.json, reply, rows)
    session.count(reply, rows)
    if not rows:
        if words:
            if not is_name and not _is_known(session, words[0].partition(".")[0]):
                session.complain("slurm_get_job_steps error: Invalid job id specified")
                return 1
            # Slurm writes an id and a step, and leaves the second empty where none is named.
            dot = "" if "." in words[0] or is_name else "."
            session.miss(f"Job step {words[0]}{dot} not found")
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
            *([f"SLUID={row['sluid']}"] if session.detail else []),
            f"State={job_state(row['state'], 0)} Partition={row['partition']}"
            f" NodeList={row['nodes']}",
            f"Nodes={row['node_count']} CPUs={row['cpus']} Tasks={row['tasks']}"
            f" Name={row['name']} Network={null(row['network'])}",
            f"TRES={null(row['tres'])}",
            f"ResvPorts={null(row['ports'])}",
            f"CPUFreqReq=Default{dist}",
            f"SrunHost:Pid={null(row['srun_host'])}:{row['srun_pid']}",
        ]
        if row["container"]:
            lines.append(f"Container={row['container']} ContainerID={null(row['container_id'])}")
        if row["tres_per_node"]:
            lines.append(f"TresPerNode={row['tres_per_node']}")
        print_record(session, lines)
    return 0

"""The words of list parameters, and values that name plugins: what each does here."""

from __future__ import annotations

from pyslurm_ng.conf.effects.key_tables import Words, named

_ALL_COUNT = "jobs and steps are always accounted, as limits on used minutes need them"
_ALWAYS = "every pass plans the whole queue"
_BEST_PLACE = "a job starts as soon as it can, in the best place that is free then"
_DIRECT = "slurmctld sends messages to each node directly"
_EVENTS = "a pass runs as soon as something has changed, and does not delay requests"
_EVERY_FIVE = "sources are read every five seconds, or more often if it says so"
_EXACT = "the timeline has steps of its own"
_KEEPS_ALL = "it is always kept"
_LEAST = "only jobs whose resources are needed are preempted"
_NEAR_RANKS = "nodes of one switch or block always have ranks next to each other"
_WAITS_FOR_ALL = "a job begins when all of its nodes are up"
_NO_SIZES = "there is one event loop, and no pool of threads"
_NOT_YET = "not in this version"
_STEPS_RETRY = "every waiting step is tried when another ends"

_SCHEDULER = Words(
    same=named("""
        allow_zero_lic assoc_limit_stop bf_allow_magnetic_slot bf_busy_nodes bf_hetjob_prio
        bf_job_part_count_reserve bf_max_job_array_resv bf_max_job_assoc bf_max_job_part
        bf_max_job_start bf_max_job_user bf_max_job_user_part bf_min_age_reserve
        bf_min_prio_reserve bf_one_resv_per_job bf_reserve_depth bf_smart
        disable_hetjob_steps disable_job_shrink enable_user_top extra_constraints
        ignore_constraint_validation ignore_prefer_validation jobs_per_user_per_hour max_array_tasks
        max_submit_line_size max_switch_wait nohold_on_prolog_fail pack_serial_at_end
        reduce_completing_frag requeue_delay spec_cores_first time_min_as_soft_limit whole_hetjob
    """),
    differs={
        "bb_array_stage_cnt": "1 to 1000 tasks; those that are held do not count",
        "bf_max_job_test": "every job unless it is given; Slurm's default is 500",
        "bf_window": "14 days unless it is given; Slurm's default is 1 day",
        "max_script_size": "scripts of more than 64 MiB are always refused",
    },
    accepted={
        "batch_sched_delay": _EVENTS,
        "bf_continue": _EVENTS,
        "bf_hetjob_immediate": "components are always looked at together",
        "bf_interval": _EVENTS,
        "bf_licenses": "licences are always planned",
        "bf_max_time": _ALWAYS,
        "bf_node_space_size": _EXACT,
        "bf_resolution": _EXACT,
        "bf_running_job_reserve": "plans always count running jobs",
        "bf_topopt_enable": _BEST_PLACE,
        "bf_topopt_iterations": _BEST_PLACE,
        "bf_window_linear": _EXACT,
        "bf_yield_interval": _EVENTS,
        "bf_yield_rpc_cnt": _EVENTS,
        "bf_yield_sleep": _EVENTS,
        "build_queue_timeout": _ALWAYS,
        "correspond_after_task_cnt": "a job may depend on an array task without splitting it off",
        "default_queue_depth": _ALWAYS,
        "defer": _EVENTS,
        "defer_batch": _EVENTS,
        "delay_boot": "what jobs ask for by --delay-boot is kept and shown",
        "enable_hetjob_steps": "steps over components work unless disable_hetjob_steps is set",
        "ignore_numa": "NUMA nodes are never taken for sockets",
        "max_rpc_cnt": _EVENTS,
        "max_sched_time": _ALWAYS,
        "no_backup_scheduling": "only the controller in charge schedules",
        "partition_job_depth": _ALWAYS,
        "requeue_on_resume_failure": "jobs that may be requeued are, others end BOOT_FAIL",
        "salloc_wait_nodes": _WAITS_FOR_ALL,
        "sbatch_wait_nodes": _WAITS_FOR_ALL,
        "sched_interval": _EVENTS,
        "sched_max_job_start": _ALWAYS,
        "sched_min_interval": _EVENTS,
        "step_retry_count": _STEPS_RETRY,
        "step_retry_time": _STEPS_RETRY,
    },
)

_NOT_SLURMS = "Slurm has no such word: "

_CONTROLLER = Words(
    same=named("""
        allow_user_triggers disable_triggers enable_expedited_requeue enable_stepmgr
        idle_on_node_suspend
        node_reg_mem_percent rl_bucket_size rl_enable rl_log_freq rl_refill_period rl_refill_rate
        rl_table_size user_resv_delete zmq_port
    """),
    differs={
        "fence_program": f"{_NOT_SLURMS}it returns 0 when a silent node can no longer run anything",
        "job_submit_timeout": f"{_NOT_SLURMS}seconds that a site's scripts may take for one "
        "request, 5 by default",
        "fence_timeout": f"{_NOT_SLURMS}seconds for one run of fence_program, 60 by default",
        "no_command_server": f"{_NOT_SLURMS}each command starts an interpreter of its own",
        "node_lease": f"{_NOT_SLURMS}seconds after which a node that is cut off ends the "
        "jobs that slurmctld has given up",
        "node_loss": f"{_NOT_SLURMS}slurm, confirmed or lease: when a job that was lost with its "
        "node begins again",
    },
    accepted={
        "cloud_dns": "addresses are those of the line, or what slurmd registers with",
        "enable_configless": "each host needs slurm.conf",
        "max_powered_nodes": "all nodes may be up",
        "power_save_interval": "nodes are looked at every second",
        "power_save_min_interval": "nodes are looked at every second",
        "reboot_from_controller": "RebootProgram always runs on the node",
        "threadpool": _NO_SIZES,
        "threadpool_preallocate": _NO_SIZES,
        "threadpool_preserve": _NO_SIZES,
        "validate_nodeaddr_threads": "nodes connect to slurmctld",
        "workerpool_threads": _NO_SIZES,
        "conmgr_threads": _NO_SIZES,
        "conmgr_use_poll": _NO_SIZES,
    },
)

_LAUNCH = Words(
    same=named("batch_step_set_cpu_freq interactive_step_set_cpu_freq use_interactive_step"),
    accepted={
        "cray_net_exclusive": "--network is only kept and shown",
        "mpir_use_nodeaddr": "there is no interface for debuggers",
    },
    refused={
        "srun_exclusive_allocation": "the jobs of srun would share nodes; use srun --exclusive",
    },
)

_NOT_TOLD = "completed jobs would not be told of; filetxt, script and elasticsearch are allowed"

SLURM_WORDS: dict[str, Words] = {
    "SchedulerParameters": _SCHEDULER,
    "DebugFlags": Words(
        same=named("""
            auditrpcs backfill burstbuffer dependency gang license priority protocol reservation
            selecttype
            steps tracejobs triggers
        """),
    ),
    "SlurmctldParameters": _CONTROLLER,
    "SlurmdParameters": Words(
        same=named("config_overrides"),
        differs={
            "spank_timeout": f"{_NOT_SLURMS}seconds that one call of a plugin of plugstack.conf "
            "may take, 30 by default"
        },
    ),
    "LaunchParameters": _LAUNCH,
    "SuspendExcStates": Words(
        same=named("""
            cloud down drain dynamic_future dynamic_norm fail invalid_reg maintenance
            not_responding powering_down powering_up reboot reserved
        """),
        accepted={"planned": "a node that is kept for a job stays up for that job's start only"},
    ),
    "AccountingStorageEnforce": Words(
        same=named("all associations limits qos safe wckeys"),
        accepted=dict.fromkeys(
            ("nojobs", "nosteps"),
            "jobs and steps are always accounted, as limits on used minutes need them",
        ),
    ),
    "AccountingStorageParameters": Words(
        same=named("max_step_records"),
        accepted=dict.fromkeys(
            named("ssl_ca ssl_capath ssl_cert ssl_cipher ssl_key"),
            "slurmctld opens no connection to the database; slurmdbd has StorageParameters",
        ),
    ),
    "AccountingStoreFlags": Words(
        same=named("job_env job_script"),
        accepted={
            "job_comment": _KEEPS_ALL,
            "job_extra": _KEEPS_ALL,
            "no_stdio": "the names of the files are always kept",
        },
    ),
    "AuthAltParameters": Words(
        same=named("disable_token_creation jwks jwt_key max_token_lifespan userclaimfield"),
        accepted=dict.fromkeys(
            ("use_jwt_client_ids", "use_jwt_client_ids_only"),
            "the daemons look users up by name",
        ),
    ),
    "AuthInfo": Words(
        same=named("socket admin_hosts"),
        accepted={
            "cred_expire": "credentials last as long as their job",
            "use_client_ids": "nodes know the users of jobs",
        },
    ),
    "BcastParameters": Words(same=named("destdir compression send_libs")),
    "CliFilterPlugins": Words(
        same=named("lua user_defaults"),
        differs={"python": "Slurm has no such filter: functions of cli_filter.py"},
        accepted={"syslog": "submissions are logged by slurmctld"},
    ),
    "CommunicationParameters": Words(
        same=frozenset(),
        accepted={"block_null_hash": "messages without a signature are never taken"},
    ),
    "DependencyParameters": Words(
        same=named("kill_invalid_depend"),
        accepted={
            "disable_remote_singleton": "singleton looks at the jobs of one cluster",
            "max_depend_depth": "chains of jobs are followed to their end",
        },
    ),
    "FederationParameters": Words(
        same=frozenset(),
        differs={"fed_display": "as --federation: a list for each cluster, below its name"},
    ),
    "HealthCheckNodeState": Words(
        same=named("alloc any cycle idle mixed reboot_only start_only"),
        differs={"nondrained_idle": "as IDLE: whether a node is drained only slurmctld knows"},
    ),
    "AcctGatherEnergyType": Words(
        same=named("pm_counters rapl"),
        differs={
            "gpu": "NVML is asked; a step has the energy of its own GPUs",
            "ipmi": "the BMC is asked by ipmi-dcmi or ipmitool",
        },
        refused={"xcc": "no energy would be counted; allowed: gpu, ipmi, pm_counters, rapl"},
    ),
    "JobAcctGatherFrequency": Words(
        same=named("task"),
        differs={
            "energy": _EVERY_FIVE,
            "network": _EVERY_FIVE,
            "filesystem": _EVERY_FIVE,
        },
    ),
    "AcctGatherFilesystemType": Words(same=named("lustre")),
    "AcctGatherInterconnectType": Words(
        same=named("sysfs"), differs={"ofed": "counters are read in /sys/class/infiniband"}
    ),
    "AcctGatherProfileType": Words(
        same=named("influxdb"),
        differs={"hdf5": "needs the Python package h5py; a file is written at its step's end"},
    ),
    "JobAcctGatherParams": Words(
        same=named("disablegpuacct noshared overmemorykill"),
        accepted={
            "usepss": "memory is counted as RSS: a process can keep a reader of its PSS waiting; "
            "NoShared leaves shared memory out"
        },
    ),
    "JobAcctGatherType": Words(
        same=named("linux"), differs={"cgroup": "as jobacct_gather/linux: /proc is read"}
    ),
    "JobCompType": Words(
        same=named("filetxt"),
        differs={
            "elasticsearch": "documents that wait when slurmctld ends are lost",
            "script": "DB_FLAGS is always None, and STATEREASONPREV is why the job ended",
        },
        refused={
            "kafka": _NOT_TOLD,
            "lua": _NOT_TOLD,
            "mysql": "no table of completed jobs would be filled; slurmdbd keeps every job",
        },
    ),
    "BurstBufferType": Words(
        same=named("lua"),
        refused={"datawarp": "Cray's programs are not called; burst_buffer/lua is allowed"},
    ),
    "JobSubmitPlugins": Words(
        same=named("all_partitions lua partition require_timelimit throttle"),
        differs={
            "pbs": "comes after scripts; before: leaves other holds alone, and what is discarded "
            "is told to the user, or refused in an update",
            "python": "Slurm has no such plugin: functions of job_submit.py",
        },
        accepted={
            "defaults": "of Slurm's defaults none changes what jobs get",
            "logging": "submissions are always logged, refused ones once a second for each user",
        },
    ),
    "LicenseParameters": Words(same=named("remotefuzzymatch")),
    "LogTimeFormat": Words(
        same=named("iso8601 iso8601_ms rfc5424 rfc5424_ms rfc3339 clock short"),
        accepted={"thread_id": "there is one thread", "format_stderr": "stderr has no times"},
    ),
    "MpiDefault": Words(
        same=named("none pmi2"),
        differs={"pmix": "needs libpmix.so.2 on the nodes and where srun runs"},
        refused={
            "cray_shasta": "the ranks would not know each other: it needs the network of a Cray",
        },
    ),
    "MpiParams": Words(same=named("disable_slurm_hydra_bootstrap ports")),
    "PreemptParameters": Words(
        same=named("min_exempt_priority reclaim_licenses send_user_signal youngest_first"),
        accepted={
            "reorder_count": _LEAST,
            "strict_order": _LEAST,
            "suspend_grace_time": "jobs are suspended at once",
        },
    ),
    "PrEpPlugins": Words(same=named("script")),
    "PriorityFlags": Words(
        same=named("""
            accrue_always depth_oblivious incr_only max_tres max_tres_gres no_fair_tree
            no_normal_all no_normal_assoc no_normal_part no_normal_qos no_normal_tres
            small_relative_to_time
        """),
        accepted={
            "calculate_running": "priorities of running jobs stay as they were",
        },
    ),
    "PrivateData": Words(
        same=named("accounts events jobs nodes partitions reservations usage users"),
    ),
    "ProctrackType": Words(
        same=named("cgroup linuxproc"),
        differs={"pgid": "as proctrack/linuxproc: processes are tracked by their descent"},
    ),
    "PrologFlags": Words(
        same=named("alloc contain deferbatch nohold forcerequeueonfail x11"),
        differs={
            "runinjob": "Epilog runs in the groups of the extern step when that has ended; without "
            "control groups both run beside the job",
        },
        accepted={
            "serial": "as Alloc: programs of several jobs run side by side",
        },
    ),
    "SelectType": Words(
        same=named("cons_tres"),
        differs={"linear": "as select/cons_tres with every partition Exclusive=NODE"},
    ),
    "SelectTypeParameters": Words(
        same=named("""
            cr_cpu cr_cpu_memory cr_core cr_core_memory cr_socket cr_socket_memory
            cr_one_task_per_core cr_core_default_dist_block cr_lln cr_pack_nodes ll_shared_gres
            multiple_sharing_gres_pj enforce_binding_gres one_task_per_sharing_gres
        """),
        differs={"cr_memory": "as CR_Core_Memory: jobs of other rows do not share cores"},
        accepted={"cr_no_dist_topo_block": _NOT_YET},
    ),
    "ScronParameters": Words(same=named("enable explicit_scancel")),
    "MCSParameters": Words(
        same=named("ondemand enforced select noselect ondemandselect privatedata"),
    ),
    "X11Parameters": Words(same=named("home_xauthority")),
    "TaskPluginParam": Words(
        same=named("none sockets cores threads autobind slurmdoffspec oomkillstep verbose"),
        accepted={"slurmdspecoverride": "slurmd is confined by affinity, not by a group"},
    ),
    "TopologyPlugin": Words(
        same=named("block flat ring tree"),
    ),
    "TopologyParam": Words(
        same=frozenset(),
        accepted={
            "dragonfly": "a tree's leaf switches are filled as well as they can be",
            "routepart": _DIRECT,
            "routetree": _DIRECT,
            "blockasnoderank": _NEAR_RANKS,
            "switchasnoderank": _NEAR_RANKS,
            "topomaxsizeunroll": "a job with a range of nodes gets as many as there is room for",
            "topooptional": "every job is placed by the network, which takes almost no time",
        },
    ),
}

NODE_WORDS: dict[str, Words] = {
    "State": Words(
        same=named("cloud down drain external fail failing future unknown"),
    ),
}

PARTITION_WORDS: dict[str, Words] = {
    "PreemptMode": Words(
        same=named("off cancel requeue suspend priority"),
        accepted={"gang": "jobs take turns where the PreemptMode of the cluster has GANG"},
    ),
}

DBD_WORDS: dict[str, Words] = {
    "LogTimeFormat": SLURM_WORDS["LogTimeFormat"],
    "Parameters": Words(
        same=named("preservecaseuser"),
        differs={"preservecaseall": "names of users only; those of resources are in lower case"},
        accepted={"preservecaseresource": "names of resources are in lower case"},
    ),
    "PrivateData": Words(
        same=named("accounts events jobs reservations usage users"),
    ),
}

_OF_DATAWARP = "of burst_buffer/datawarp alone"
BURST_BUFFER_WORDS: dict[str, Words] = {
    "Flags": Words(
        same=named("privatedata teardownfailure"),
        accepted={
            "disablepersistent": _OF_DATAWARP,
            "emulatecray": _OF_DATAWARP,
            "enablepersistent": _OF_DATAWARP,
        },
    ),
}

ACCT_GATHER_WORDS: dict[str, Words] = {
    "ProfileInfluxDBExtraTags": Words(
        same=named("cluster uid user"), accepted={"sluid": "nodes are not told of it"}
    ),
    "ProfileInfluxDBFlags": Words(same=named("grouped_fields")),
}

GRES_WORDS: dict[str, Words] = {
    "Flags": Words(
        same=named(
            "countonly one_sharing all_sharing explicit env_uuid nvidia_gpu_env amd_gpu_env "
            "intel_gpu_env opencl_env no_gpu_env"
        ),
    ),
}

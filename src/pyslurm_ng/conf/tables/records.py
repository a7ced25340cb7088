"""The configuration as typed attributes, one for each key."""
# Written by tools/generate_conf_tables.py; change that and run it again.

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.conf.tables.key import ControllerHost


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmParameters:
    """The cluster-wide keys of slurm.conf."""

    accounting_storage_backup_host: str
    accounting_storage_enforce: tuple[str, ...]
    accounting_storage_external_host: tuple[str, ...]
    accounting_storage_host: str
    accounting_storage_parameters: tuple[str, ...]
    accounting_storage_pass: str
    accounting_storage_port: int
    accounting_storage_tres: tuple[str, ...]
    accounting_storage_type: str
    accounting_storage_user: str
    accounting_store_flags: tuple[str, ...]
    acct_gather_node_freq: int
    acct_gather_energy_type: tuple[str, ...]
    acct_gather_interconnect_type: tuple[str, ...]
    acct_gather_filesystem_type: str
    acct_gather_profile_type: str
    allow_spec_resources_usage: bool
    auth_alt_types: tuple[str, ...]
    auth_alt_parameters: tuple[str, ...]
    auth_info: tuple[str, ...]
    auth_type: str
    batch_start_timeout: int
    bcast_exclude: tuple[str, ...]
    bcast_parameters: tuple[str, ...]
    burst_buffer_type: str
    certgen_parameters: tuple[str, ...]
    certgen_type: str
    certmgr_parameters: tuple[str, ...]
    certmgr_type: str
    cli_filter_parameters: tuple[str, ...]
    cli_filter_plugins: tuple[str, ...]
    cluster_name: str
    communication_parameters: tuple[str, ...]
    complete_wait: int
    cpu_freq_def: str
    cpu_freq_governors: tuple[str, ...]
    cred_type: str
    data_parser_parameters: str
    debug_flags: tuple[str, ...]
    def_cpu_per_gpu: int
    def_mem_per_cpu: int
    def_mem_per_gpu: int
    def_mem_per_node: int
    def_runtime_plugin: str
    dependency_parameters: tuple[str, ...]
    disable_root_jobs: bool
    eio_timeout: int
    enforce_part_limits: str
    epilog: tuple[str, ...]
    epilog_msg_time: int
    epilog_slurmctld: str
    epilog_timeout: int
    fair_share_dampening_factor: int
    federation_parameters: tuple[str, ...]
    first_job_id: int
    gres_types: tuple[str, ...]
    group_update_force: bool
    group_update_time: int
    gpu_freq_def: str
    hash_plugin: str
    health_check_interval: int
    health_check_node_state: tuple[str, ...]
    health_check_program: str
    health_check_timeout: int
    http_parser_type: str
    inactive_limit: int
    interactive_step_options: str
    job_acct_gather_type: str
    job_acct_gather_frequency: tuple[str, ...]
    job_acct_gather_params: tuple[str, ...]
    job_comp_host: str
    job_comp_loc: str
    job_comp_params: tuple[str, ...]
    job_comp_pass: str
    job_comp_pass_script: str
    job_comp_port: int
    job_comp_type: str
    job_comp_user: str
    job_file_append: bool
    job_requeue: bool
    job_submit_plugins: tuple[str, ...]
    kill_on_bad_exit: bool
    kill_wait: int
    launch_parameters: tuple[str, ...]
    license_parameters: tuple[str, ...]
    licenses: tuple[tuple[str, int], ...]
    log_time_format: tuple[str, ...]
    mail_domain: str
    mail_prog: str
    max_array_size: int
    max_batch_requeue: int
    max_dbd_msgs: int
    max_job_count: int
    max_job_id: int
    max_mem_per_cpu: int
    max_mem_per_node: int
    max_node_count: int
    max_step_count: int
    max_tasks_per_node: int
    mcs_parameters: str
    mcs_plugin: str
    message_timeout: int
    metrics_auth_users: tuple[str, ...]
    metrics_parameters: tuple[str, ...]
    metrics_type: str
    min_job_age: int
    mpi_default: str
    mpi_params: tuple[str, ...]
    namespace_type: str
    node_features_plugins: tuple[str, ...]
    over_time_limit: int
    plugin_dir: str
    plugstack_config: str
    preempt_mode: tuple[str, ...]
    preempt_parameters: tuple[str, ...]
    preempt_type: str
    preempt_exempt_time: int
    prep_parameters: str
    prep_plugins: tuple[str, ...]
    priority_calc_period: int
    priority_decay_half_life: int
    priority_favor_small: bool
    priority_flags: tuple[str, ...]
    priority_max_age: int
    priority_parameters: str
    priority_site_factor_parameters: str
    priority_site_factor_plugin: str
    priority_type: str
    priority_usage_reset_period: str
    priority_weight_age: int
    priority_weight_assoc: int
    priority_weight_fairshare: int
    priority_weight_job_size: int
    priority_weight_partition: int
    priority_weight_qos: int
    priority_weight_tres: str
    private_data: tuple[str, ...]
    proctrack_type: str
    prolog: tuple[str, ...]
    prolog_epilog_timeout: int
    prolog_flags: tuple[str, ...]
    prolog_slurmctld: str
    prolog_timeout: int
    propagate_prio_process: int
    propagate_resource_limits: tuple[str, ...]
    propagate_resource_limits_except: tuple[str, ...]
    reboot_program: str
    reconfig_flags: tuple[str, ...]
    requeue_exit: tuple[int, ...]
    requeue_exit_hold: tuple[int, ...]
    resume_fail_program: str
    resume_program: str
    resume_rate: int
    resume_timeout: int
    resv_epilog: str
    resv_over_run: int
    resv_prolog: str
    return_to_service: int
    scheduler_parameters: tuple[str, ...]
    scheduler_time_slice: int
    scheduler_type: str
    scron_parameters: tuple[str, ...]
    select_type: str
    select_type_parameters: tuple[str, ...]
    serializer_parameters: tuple[str, ...]
    serializer_plugins: tuple[str, ...]
    slurmctld_addr: str
    slurmctld_debug: str
    slurmctld_host: tuple[ControllerHost, ...]
    slurmctld_http_auth_parameters: tuple[str, ...]
    slurmctld_log_file: str
    slurmctld_parameters: tuple[str, ...]
    slurmctld_pid_file: str
    slurmctld_port: tuple[int, int]
    slurmctld_primary_off_prog: str
    slurmctld_primary_on_prog: str
    slurmctld_syslog_debug: str
    slurmctld_timeout: int
    slurmd_debug: str
    slurmd_http_auth_parameters: tuple[str, ...]
    slurmd_log_file: str
    slurmd_parameters: tuple[str, ...]
    slurmd_pid_file: str
    slurmd_port: int
    slurmd_spool_dir: str
    slurmd_syslog_debug: str
    slurmd_timeout: int
    slurmd_user: str
    slurmrestd_parameters: tuple[str, ...]
    slurm_sched_log_file: str
    slurm_sched_log_level: int
    slurmstepd_parameters: tuple[str, ...]
    slurm_user: str
    srun_epilog: str
    srun_port_range: tuple[int, int]
    srun_prolog: str
    state_save_location: str
    suspend_exc_nodes: tuple[str, ...]
    suspend_exc_parts: tuple[str, ...]
    suspend_exc_states: tuple[str, ...]
    suspend_program: str
    suspend_rate: int
    suspend_time: int
    suspend_timeout: int
    switch_parameters: tuple[str, ...]
    switch_type: str
    task_epilog: str
    task_plugin: tuple[str, ...]
    task_plugin_param: tuple[str, ...]
    task_prolog: str
    tcp_timeout: int
    tls_parameters: tuple[str, ...]
    tls_type: str
    tmp_fs: str
    topology_param: tuple[str, ...]
    topology_plugin: str
    track_wckey: bool
    tree_width: int
    unkillable_step_program: str
    unkillable_step_timeout: int
    url_parser_type: str
    use_pam: bool
    vsize_factor: int
    wait_time: int
    x11_parameters: tuple[str, ...]
    slurmrestd_http_auth_parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionParameters:
    """The keys of a PartitionName line."""

    partition_name: str
    alloc_nodes: str
    allow_accounts: tuple[str, ...]
    allow_groups: tuple[str, ...]
    allow_qos: tuple[str, ...]
    alternate: str
    cpu_bind: str
    default: bool
    default_time: int
    def_cpu_per_gpu: int
    def_mem_per_cpu: int
    def_mem_per_gpu: int
    def_mem_per_node: int
    deny_accounts: tuple[str, ...]
    deny_qos: tuple[str, ...]
    disable_root_jobs: bool
    exclusive: str
    exclusive_user: bool
    exclusive_topo: bool
    grace_time: int
    hidden: bool
    lln: bool
    max_cpus_per_node: int
    max_cpus_per_socket: int
    max_mem_per_cpu: int
    max_mem_per_node: int
    max_nodes: int
    max_time: int
    min_nodes: int
    nodes: str
    over_subscribe: str
    over_time_limit: int
    power_down_on_idle: bool
    preempt_mode: tuple[str, ...]
    priority_job_factor: int
    priority_tier: int
    qos: str
    req_resv: bool
    resume_timeout: int
    root_only: bool
    select_type_parameters: tuple[str, ...]
    state: str
    suspend_time: int
    suspend_timeout: int
    topology: str
    tres_billing_weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupParameters:
    """The keys of cgroup.conf."""

    cgroup_mountpoint: str
    cgroup_plugin: str
    cgroup_slice: str
    cgroup_job_id_paths: bool
    systemd_timeout: int
    ignore_systemd: bool
    ignore_systemd_on_failure: bool
    enable_controllers: bool
    enable_extra_controllers: tuple[str, ...]
    allowed_ram_space: int
    allowed_swap_space: int
    constrain_cores: bool
    constrain_devices: bool
    constrain_ram_space: bool
    constrain_swap_space: bool
    max_ram_percent: int
    max_swap_percent: int
    memory_swappiness: int
    min_ram_space: int
    signal_children_processes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmdbdParameters:
    """The keys of slurmdbd.conf."""

    allow_no_def_acct: bool
    all_resources_absolute: bool
    archive_dir: str
    archive_events: bool
    archive_jobs: bool
    archive_job_script: bool
    archive_job_env: bool
    archive_resvs: bool
    archive_script: str
    archive_steps: bool
    archive_suspend: bool
    archive_txn: bool
    archive_usage: bool
    auth_alt_types: tuple[str, ...]
    auth_alt_parameters: tuple[str, ...]
    auth_info: tuple[str, ...]
    auth_type: str
    commit_delay: int
    communication_parameters: tuple[str, ...]
    dbd_addr: str
    dbd_backup_host: str
    dbd_host: str
    dbd_port: int
    debug_flags: tuple[str, ...]
    debug_level: str
    debug_level_syslog: str
    default_qos: str
    disable_archive_commands: bool
    disable_coord_dbd: bool
    disable_rollups: bool
    hash_plugin: str
    log_file: str
    log_time_format: tuple[str, ...]
    max_purge_limit: int
    max_query_time_range: int
    message_timeout: int
    parameters: tuple[str, ...]
    pid_file: str
    plugin_dir: str
    private_data: tuple[str, ...]
    purge_event_after: tuple[int, str]
    purge_job_after: tuple[int, str]
    purge_job_script_after: tuple[int, str]
    purge_job_env_after: tuple[int, str]
    purge_resv_after: tuple[int, str]
    purge_step_after: tuple[int, str]
    purge_suspend_after: tuple[int, str]
    purge_txn_after: tuple[int, str]
    purge_usage_after: tuple[int, str]
    serializer_parameters: tuple[str, ...]
    serializer_plugins: tuple[str, ...]
    slurm_user: str
    storage_backup_host: str
    storage_host: str
    storage_loc: str
    storage_parameters: tuple[str, ...]
    storage_pass: str
    storage_pass_script: str
    storage_port: int
    storage_type: str
    storage_user: str
    tcp_timeout: int
    tls_parameters: tuple[str, ...]
    tls_type: str
    track_slurmctld_down: bool
    track_wckey: bool

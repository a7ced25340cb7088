"""What seff prints about how much of its processors, memory and time a job used."""

from pyslurm_ng.data_parser.efficiency import Efficiency, memory_text, time_text


def lines(efficiency: Efficiency, cluster: str) -> "list[str]":
    """Return what seff prints of one job."""
    job = efficiency.job
    shown = [f"Job ID: {job['job_id']}"]
    if efficiency.array_name:
        shown.append(f"Array Job ID: {efficiency.array_name}")
    if job["het_job_id"]:
        shown.append(f"Het Job ID: {job['het_job_id']}+{job['het_job_offset']}")
    user, group = job["user"] or job["uid"], job["group"] or job["gid"]
    shown += [f"Cluster: {cluster}", f"User/Group: {user}/{group}"]
    over = not efficiency.is_waiting and not efficiency.is_running
    code = f" (exit code {efficiency.exit_status})" if over or job["end_us"] else ""
    shown.append(f"State: {efficiency.state}{code}")
    if efficiency.cpus == 1:
        shown.append("Cores: 1")
    else:
        shown.append(f"Nodes: {efficiency.nodes}")
        shown.append(f"Cores per node: {efficiency.cpus // efficiency.nodes or 1}")
    if efficiency.is_waiting:
        shown.append(f"Efficiency not available for jobs in the {efficiency.state} state.")
        return shown
    shown += _used(efficiency)
    if efficiency.is_running:
        shown.append(
            f"WARNING: Efficiency statistics may be misleading for {efficiency.state} jobs."
        )
    return shown


def _used(efficiency: Efficiency) -> "list[str]":
    per_cpu = efficiency.job["mem_is_per_cpu"]
    limit_kib = efficiency.memory_limit_kib
    unit_kib = limit_kib / (efficiency.cpus if per_cpu else efficiency.nodes)
    estimated = " (estimated maximum)" if efficiency.tasks > 1 else ""
    shown = [
        f"CPU Utilized: {time_text(efficiency.cpu_s)}",
        f"CPU Efficiency: {efficiency.cpu_percent:.2f}% of {time_text(efficiency.core_s)} "
        "core-walltime",
        f"Job Wall-clock time: {time_text(efficiency.wall_s)}",
        f"Memory Utilized: {memory_text(efficiency.memory_kib)}{estimated}",
        f"Memory Efficiency: {efficiency.memory_percent:.2f}% of {memory_text(limit_kib)} "
        f"({memory_text(unit_kib)}/{'core' if per_cpu else 'node'})",
    ]
    if efficiency.gpu_percent is not None:
        shown.append(f"GPU Efficiency: {efficiency.gpu_percent:.2f}%")
    if efficiency.gpu_memory_kib is not None:
        shown.append(f"GPU Memory Utilized: {memory_text(efficiency.gpu_memory_kib)}")
    return shown


def raw_lines(efficiency: Efficiency, cluster: str) -> "list[str]":
    """Return what -d prints before the rest: the figures that the text is made from."""
    job = efficiency.job
    values = (
        job["job_id"], efficiency.array_name, job["user"] or job["uid"], job["group"] or job["gid"],
        efficiency.state, cluster, efficiency.cpus, efficiency.nodes, efficiency.tasks,
        job["mem_mib"] * 1024, 0 if job["mem_is_per_cpu"] else 1, efficiency.cpu_s,
        efficiency.wall_s, efficiency.memory_kib, efficiency.exit_status,
    )  # fmt: skip
    names = (
        "JobID ArrayJobID User Group State Clustername Ncpus Nnodes Ntasks Reqmem PerNode Cput "
        "Walltime Mem ExitStatus"
    )
    return [f"Slurm data: {names}", "Slurm data: " + " ".join(map(str, values)), ""]

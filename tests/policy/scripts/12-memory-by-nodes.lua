-- Jobs of one node share it; those of several get nodes of their own, and more memory.
local PER_NODE = { [1] = 1000, [2] = 2000 }

function slurm_job_submit(job_desc, part_list, submit_uid)
    local least, most = job_desc.min_nodes, job_desc.max_nodes
    if least == slurm.NO_VAL then least = 1 end
    if most == slurm.NO_VAL then most = least end
    if job_desc.pn_min_memory == slurm.NO_VAL64 then
        local mem = PER_NODE[least] or 4000
        job_desc.pn_min_memory = mem
        slurm.log_user("nodes %d-%d: %d MB a node", least, most, mem)
    elseif job_desc.pn_min_memory >= slurm.MEM_PER_CPU then
        slurm.log_user("memory for each CPU: %d", job_desc.min_mem_per_cpu)
    end
    if job_desc.pn_min_tmp_disk == slurm.NO_VAL then
        job_desc.pn_min_tmp_disk = 0
    end
    if least > 1 then
        job_desc.shared = 0
    end
    if job_desc.cpus_per_task == slurm.NO_VAL16 and job_desc.num_tasks == slurm.NO_VAL then
        job_desc.cpus_per_task = 2
        job_desc.min_cpus = 2
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

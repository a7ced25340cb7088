-- Jobs of several nodes get them whole; small ones are packed, with memory for each CPU.
function slurm_job_submit(job_desc, part_list, submit_uid)
    local nodes = job_desc.min_nodes
    if nodes ~= slurm.NO_VAL and nodes > 1 then
        job_desc.shared = 0
        job_desc.requeue = 0
        if job_desc.ntasks_per_node == slurm.NO_VAL16 then
            job_desc.ntasks_per_node = 4
            job_desc.num_tasks = nodes * 4
        end
    else
        if job_desc.shared == 0 then
            slurm.log_user("--exclusive is for jobs of several nodes")
            return slurm.ERROR
        end
        if job_desc.min_mem_per_node == nil and job_desc.min_mem_per_cpu == nil then
            job_desc.min_mem_per_cpu = 512
        end
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

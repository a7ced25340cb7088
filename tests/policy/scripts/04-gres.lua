-- GPU jobs to the gpu partition, others never; a GPU by default there.
local function gpus(job_desc)
    for _, name in ipairs({ "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task" }) do
        local value = job_desc[name]
        if value ~= nil and string.find(value, "gpu") then
            return true
        end
    end
    return false
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    if gpus(job_desc) then
        if job_desc.partition == nil then
            job_desc.partition = "gpu"
        elseif job_desc.partition ~= "gpu" then
            slurm.log_user("GPUs are in the partition gpu, not in %s", job_desc.partition)
            return slurm.ERROR
        end
    elseif job_desc.partition == "gpu" then
        job_desc.gres = "gpu:1"
        slurm.log_user("you get one GPU")
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

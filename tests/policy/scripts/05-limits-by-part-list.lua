-- A job whose time limit is beyond every partition is refused; others go to the first that takes it.
function slurm_job_submit(job_desc, part_list, submit_uid)
    if job_desc.partition ~= nil then
        local part = part_list[job_desc.partition]
        if part == nil then
            slurm.log_user("no partition %s", job_desc.partition)
            return slurm.ESLURM_ACCESS_DENIED
        end
        if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > part.max_time then
            slurm.log_user("%s: at most %d minutes", part.name, part.max_time)
            return slurm.ESLURM_INVALID_TIME_LIMIT
        end
        if job_desc.min_nodes ~= slurm.NO_VAL and part.max_nodes ~= slurm.INFINITE
            and job_desc.min_nodes > part.max_nodes then
            return slurm.ESLURM_INVALID_NODE_COUNT
        end
        return slurm.SUCCESS
    end
    local best, tier = nil, -1
    for name, part in pairs(part_list) do
        local fits = job_desc.time_limit == slurm.NO_VAL or job_desc.time_limit <= part.max_time
        if fits and part.flag_default == 1 and best == nil then
            best, tier = name, part.priority_tier
        elseif fits and part.priority_tier > tier and part.max_time <= 60 then
            best, tier = name, part.priority_tier
        end
    end
    job_desc.partition = best
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.partition ~= nil and part_list[job_desc.partition] == nil then
        return slurm.ESLURM_ACCESS_DENIED
    end
    return slurm.SUCCESS
end

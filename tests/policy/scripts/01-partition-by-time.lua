-- Short jobs to the short partition, jobs of more than a day to the long one, the rest as it is.
function slurm_job_submit(job_desc, part_list, submit_uid)
    if job_desc.partition ~= nil then
        return slurm.SUCCESS
    end
    if job_desc.time_limit == slurm.NO_VAL then
        job_desc.time_limit = 30
    end
    if job_desc.time_limit <= 60 then
        job_desc.partition = "short"
    elseif job_desc.time_limit > 1440 then
        job_desc.partition = "long"
    end
    slurm.log_info("uid %u: partition %s for %u minutes", submit_uid,
                   job_desc.partition or "(default)", job_desc.time_limit)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > 1440
        and job_rec.partition == "short" then
        return slurm.ESLURM_INVALID_TIME_LIMIT
    end
    return slurm.SUCCESS
end

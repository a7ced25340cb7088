-- No job without a limit; time_str2mins reads a text.
local LONGEST = slurm.time_str2mins("3-00:00:00")

function slurm_job_submit(job_desc, part_list, submit_uid)
    if job_desc.time_limit == slurm.NO_VAL then
        job_desc.time_limit = slurm.time_str2mins("1:30:00")
        slurm.log_user("no --time: your job gets %d minutes", job_desc.time_limit)
    elseif job_desc.time_limit > LONGEST then
        slurm.log_user("at most three days; yours is cut")
        job_desc.time_limit = LONGEST
    end
    if job_desc.time_min ~= slurm.NO_VAL and job_desc.time_min > job_desc.time_limit then
        job_desc.time_min = job_desc.time_limit
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > LONGEST then
        job_desc.time_limit = LONGEST
    end
    return slurm.SUCCESS
end

-- What a job was given stays: users may lower, not raise; nobody moves jobs between accounts.
local function show(value)
    if value == nil then return "nil" end
    return tostring(value)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    if job_desc.time_limit == slurm.NO_VAL then job_desc.time_limit = 120 end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_ptr, part_list, modify_uid)
    if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > job_ptr.time_limit then
        return slurm.ESLURM_INVALID_TIME_LIMIT
    end
    if job_desc.account ~= nil and job_desc.account ~= job_ptr.account then
        return slurm.ESLURM_INVALID_ACCOUNT
    end
    if job_desc.partition ~= nil then
        local part = part_list[job_desc.partition]
        if part ~= nil and part.max_time ~= slurm.INFINITE and job_ptr.time_limit > part.max_time then
            job_desc.time_limit = part.max_time
        end
    end
    if job_desc.comment ~= nil then
        job_desc.comment = string.format("%s (%s, %s, %s, %s)", job_desc.comment, show(job_ptr.name),
            show(job_ptr.partition), show(job_ptr.qos), show(job_ptr.time_limit))
    end
    if job_desc.name == "" then return slurm.ERROR end
    if job_desc.nice ~= slurm.NO_VAL then
        job_desc.admin_comment = string.format("nice %d by %d", job_desc.nice - slurm.NICE_OFFSET, modify_uid)
    end
    if job_desc.features ~= nil then
        job_desc.features = "fast"
    end
    if job_desc.num_tasks ~= slurm.NO_VAL and job_desc.num_tasks > 4 then
        return -1
    end
    return slurm.SUCCESS
end

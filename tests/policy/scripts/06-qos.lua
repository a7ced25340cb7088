-- The QOS follows from size and time.
function slurm_job_submit(job_desc, part_list, submit_uid)
    if job_desc.qos == nil then
        if job_desc.num_tasks ~= slurm.NO_VAL and job_desc.num_tasks >= 8 then
            job_desc.qos = "low"
        elseif job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit <= 15 then
            job_desc.qos = "high"
        end
    elseif job_desc.qos == "forbidden" then
        slurm.log_user("the QOS %s is not for you", job_desc.qos)
        return slurm.ESLURM_ACCOUNTING_POLICY
    end
    return 0
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.qos == "low" then job_desc.comment = "was made low" end
    return 0
end

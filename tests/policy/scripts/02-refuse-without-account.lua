-- Every job names its account, and says what it is.
function slurm_job_submit(job_desc, part_list, submit_uid)
    if job_desc.account == nil then
        slurm.log_user("You have to say which account pays: --account=NAME")
        slurm.log_user("See https://hpc.example.org/accounts")
        return slurm.ESLURM_INVALID_ACCOUNT
    end
    if job_desc.account == "acc2" and job_desc.comment == nil then
        slurm.user_msg("acc2 wants a --comment")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.account ~= nil and job_desc.account ~= job_rec.account then
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

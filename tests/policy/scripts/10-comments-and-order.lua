-- Comments, names, order, licences, mail and the environment.
function slurm_job_submit(job_desc, part_list, submit_uid)
    local project = job_desc.environment.PROJECT
    if project ~= nil then
        job_desc.comment = "project " .. project
        job_desc.environment.PROJECT_SEEN = "yes"
    end
    job_desc.admin_comment = string.format("%s:%s", tostring(job_desc.user_name), tostring(submit_uid))
    if string.match(job_desc.name or "", "matlab") then
        job_desc.licenses = "lic:1"
    end
    if string.match(job_desc.script or "", "nice me") then
        job_desc.nice = slurm.NICE_OFFSET + 50
    end
    if job_desc.name == "later" then
        job_desc.priority = 0
    elseif job_desc.name == "first" then
        job_desc.priority = 4000
    elseif job_desc.name == "mail" then
        job_desc.mail_type = slurm.MAIL_JOB_END + slurm.MAIL_JOB_FAIL
        job_desc.mail_user = "ops"
    elseif job_desc.name == "dir" then
        job_desc.work_dir = "/var"
        job_desc.std_out = "/var/tmp/%j.log"
    elseif job_desc.name == "big" then
        job_desc.min_nodes = 2
        job_desc.max_nodes = 4
        job_desc.cpus_per_task = 2
        job_desc.num_tasks = 4
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.name ~= nil then
        job_desc.comment = "renamed from " .. job_rec.name
    end
    return slurm.SUCCESS
end

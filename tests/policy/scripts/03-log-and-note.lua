-- Nothing is changed but notes for the administrators.
local function show(value)
    if value == nil then return "-" end
    if value == slurm.NO_VAL or value == slurm.NO_VAL16 or value == slurm.NO_VAL64 then return "-" end
    return tostring(value)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local fields = { "name", "account", "partition", "qos", "time_limit", "min_nodes", "max_nodes",
                     "num_tasks", "cpus_per_task", "ntasks_per_node", "min_cpus", "pn_min_cpus",
                     "features", "reservation", "licenses", "dependency", "array_inx", "exc_nodes",
                     "req_nodes", "requeue", "shared", "contiguous", "nice", "priority", "wckey",
                     "min_mem_per_node", "min_mem_per_cpu", "pn_min_tmp_disk", "begin_time",
                     "mail_type", "mail_user", "time_min", "req_switch", "wait4switch",
                     "std_out", "std_err", "threads_per_core", "user_name", "user_id", "argc" }
    local words = {}
    for _, name in ipairs(fields) do
        table.insert(words, string.format("%s=%s", name, show(job_desc[name])))
    end
    local text = table.concat(words, " ")
    slurm.log_verbose("%s", text)
    job_desc.admin_comment = text
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    slurm.log_info("job %u of %s changed by %u", job_rec.job_id, job_rec.user_name or "?", modify_uid)
    return slurm.SUCCESS
end

-- Kinds of values that fields take.
local CASES = {
    s_time = function(d) d.time_limit = "45" end,
    f_time = function(d) d.time_limit = 7.0 end,
    i_time = function(d) d.time_limit = slurm.INFINITE end,
    n_tasks = function(d) d.num_tasks = 3; d.ntasks_per_node = 2 end,
    t_comment = function(d) d.comment = 42 end,
    threads = function(d) d.threads_per_core = 1 end,
    sockets = function(d) d.sockets_per_node = 1; d.cores_per_socket = 2 end,
    excl = function(d) d.shared = 0 end,
    over = function(d) d.shared = 1 end,
    user = function(d) d.shared = 2 end,
    cont = function(d) d.contiguous = 1 end,
    begin = function(d) d.begin_time = 0 end,
    features = function(d) d.features = "" end,
    none = function(d) d.time_limit = slurm.NO_VAL; d.mail_type = 0 end,
    exc = function(d) d.exc_nodes = "n1,n2" end,
    req = function(d) d.req_nodes = "n3" end,
    gres = function(d) d.tres_per_node = "gres:gpu:2" end,
    gres2 = function(d) d.gres = "gpu:1" end,
    job = function(d) d.tres_per_job = "gres:gpu:3" end,
    prio = function(d) d.priority = 123 end,
    out = function(d) d.std_out = "/tmp/x.%j" end,
    arr = function(d) d.array_inx = "0-3" end,
    dir = function(d) d.work_dir = "/var/tmp" end,
    requeue = function(d) d.requeue = 1 end,
    norequeue = function(d) d.requeue = 0 end,
    nice = function(d) d.nice = slurm.NICE_OFFSET - 10 end,
    switches = function(d) d.req_switch = 1; d.wait4switch = 60 end,
    script = function(d) d.script = "#!/bin/sh\necho other\n" end,
    reboot = function(d) d.reboot = 1 end,
    tmin = function(d) d.time_min = 2 end,
}

function slurm_job_submit(job_desc, part_list, submit_uid)
    local case = CASES[job_desc.name]
    if case then case(job_desc) end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

-- Limits of each user, found by walking the partitions; a default account for those without one.
local LIMITS = { [0] = { partitions = { gpu = true, long = true }, time = 600, account = "acc1" } }
local OTHERS = { partitions = {}, time = 60, account = "acc2" }

local function names(part_list)
    local list = {}
    for name, part in pairs(part_list) do
        if part.flag_default ~= 1 then list[#list + 1] = name end
    end
    table.sort(list)
    return list
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local mine = LIMITS[submit_uid] or OTHERS
    if job_desc.default_account == nil and job_desc.account == nil then
        job_desc.account = mine.account
    end
    if job_desc.account == nil then
        job_desc.account = mine.account
    end
    if job_desc.partition == nil then
        local usable = {}
        for _, name in ipairs(names(part_list)) do
            local part = part_list[name]
            if mine.partitions[name] and (job_desc.time_limit == slurm.NO_VAL
                or part.max_time == slurm.INFINITE or part.max_time >= job_desc.time_limit) then
                usable[#usable + 1] = name
            end
        end
        if #usable == 0 then
            slurm.log_user("no partition takes your job; there are %s", table.concat(names(part_list), " "))
            return slurm.ERROR
        end
        job_desc.partition = table.concat(usable, ",")
    end
    if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > mine.time
        and job_desc.time_limit ~= slurm.INFINITE then
        slurm.log_user("time cut to %d minutes", mine.time)
        job_desc.time_limit = mine.time
    end
    for name, part in pairs(part_list) do
        if name == job_desc.partition and part.min_nodes ~= nil and part.total_nodes ~= nil
            and job_desc.min_nodes ~= slurm.NO_VAL and job_desc.min_nodes > part.total_nodes then
            slurm.log_user("%s has %d nodes, %d CPUs", name, part.total_nodes, part.total_cpus)
            return slurm.ESLURM_INVALID_NODE_COUNT
        end
    end
    if job_desc.array_inx ~= nil then
        slurm.log_user("array %s", job_desc.array_inx)
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

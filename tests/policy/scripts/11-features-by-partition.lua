-- Every partition has its features and its memory; both are written down in one table.
local RULES = {
    short = { features = "fast", mem_per_cpu = 256, max_cpus = 4 },
    long = { features = nil, mem_per_cpu = 512, max_cpus = 16 },
    gpu = { features = "fast", mem_per_cpu = 1024, max_cpus = 32 },
}
local errors = {}

local function complain(fmt, ...)
    errors[#errors + 1] = string.format(fmt, ...)
end

local function cpus(job_desc)
    local tasks, each = 1, 1
    if job_desc.num_tasks ~= slurm.NO_VAL then tasks = job_desc.num_tasks end
    if job_desc.cpus_per_task ~= slurm.NO_VAL16 then each = job_desc.cpus_per_task end
    return tasks * each
end

local function one(job_desc, name, rule)
    if rule.features then
        if job_desc.features == nil then
            job_desc.features = rule.features
        elseif not string.find(job_desc.features, rule.features, 1, true) then
            job_desc.features = job_desc.features .. "&" .. rule.features
        end
    end
    if job_desc.min_mem_per_cpu == nil and job_desc.min_mem_per_node == nil then
        job_desc.min_mem_per_cpu = rule.mem_per_cpu
    end
    if cpus(job_desc) > rule.max_cpus then
        complain("%s: %d CPUs are too many, %d are allowed", name, cpus(job_desc), rule.max_cpus)
    end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    errors = {}
    for name in string.gmatch(job_desc.partition or "", "[^,]+") do
        if RULES[name] then one(job_desc, name, RULES[name]) end
    end
    for _, text in ipairs(errors) do slurm.log_user(text) end
    if #errors > 0 then return slurm.ESLURM_INVALID_NODE_COUNT end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

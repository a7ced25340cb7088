-- A long script of a real site: helpers, tables, patterns, several answers at once.
local function split(text, sep)
    local parts = {}
    for part in string.gmatch(text or "", "[^" .. sep .. "]+") do parts[#parts + 1] = part end
    return parts
end

local function has_gpu(job_desc)
    for _, field in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres" }) do
        local value = job_desc[field]
        if value and string.match(value, "gpu") then return field, value end
    end
end

local function minutes(limit)
    if limit == slurm.NO_VAL then return "default" end
    if limit == slurm.INFINITE then return "unlimited" end
    return string.format("%dh%02d", math.floor(limit / 60), limit % 60)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local notes = {}
    local field, value = has_gpu(job_desc)
    if field then
        local count = tonumber(string.match(value, "(%d+)$")) or 1
        notes[#notes + 1] = string.format("%s=%s(%d)", field, value, count)
        if count > 2 then
            slurm.log_user("at most two GPUs")
            return slurm.ERROR
        end
    end
    for _, name in ipairs(split(job_desc.partition, ",")) do
        notes[#notes + 1] = name .. (part_list[name] and "+" or "-")
    end
    notes[#notes + 1] = minutes(job_desc.time_limit)
    if job_desc.mail_user ~= nil and not string.match(job_desc.mail_user, "@") then
        job_desc.mail_user = job_desc.mail_user .. "@example.org"
    end
    if job_desc.work_dir and string.match(job_desc.work_dir, "^/home") then
        slurm.log_user("use /scratch")
    end
    if job_desc.script and string.match(job_desc.script, "mpirun") then
        notes[#notes + 1] = "mpirun"
    end
    if job_desc.dependency then notes[#notes + 1] = job_desc.dependency end
    if job_desc.begin_time and job_desc.begin_time > 0 then notes[#notes + 1] = "later" end
    if job_desc.requeue == 0 then notes[#notes + 1] = "once" end
    if job_desc.immediate and job_desc.immediate ~= 0 then notes[#notes + 1] = "now" end
    if job_desc.wckey then notes[#notes + 1] = job_desc.wckey end
    job_desc.comment = table.concat(notes, " ")
    if job_desc.qos and job_desc.qos == "low" then job_desc.nice = slurm.NICE_OFFSET + 100 end
    if job_desc.nosuchfield ~= nil then return slurm.ERROR end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    local old = job_rec.comment or ""
    if job_desc.comment ~= nil then job_desc.comment = old .. "; " .. job_desc.comment end
    return slurm.SUCCESS
end

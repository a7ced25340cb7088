-- What a site returns: names, plain numbers, texts, nothing, several values.
local CASES = {
    error = function() return slurm.ERROR end,
    failure = function() return slurm.FAILURE end,
    account = function() return slurm.ESLURM_INVALID_ACCOUNT end,
    denied = function() return slurm.ESLURM_ACCESS_DENIED end,
    policy = function() return slurm.ESLURM_ACCOUNTING_POLICY end,
    time = function() return slurm.ESLURM_INVALID_TIME_LIMIT end,
    missing = function() return slurm.ESLURM_MISSING_TIME_LIMIT end,
    nodes = function() return slurm.ESLURM_INVALID_NODE_COUNT end,
    plain = function() return 2015 end,
    unknown = function() return 9999 end,
    negative = function() return -5 end,
    text = function() return "2045" end,
    word = function() return "no" end,
    nothing = function() return nil end,
    yes = function() return true end,
    none = function() end,
    two = function() return 0, 2045 end,
    half = function() return 0.5 end,
    said = function() slurm.user_msg("line one\nline two") return slurm.ERROR end,
    percent = function() slurm.log_user("100%% of %s", "it") return 0 end,
    long = function() slurm.log_user(string.rep("abc ", 40)) return 0 end,
    table = function() return {} end,
}

function slurm_job_submit(job_desc, part_list, submit_uid)
    local case = CASES[job_desc.name]
    if case then return case() end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    local case = CASES[job_desc.name]
    if case then return case() end
    return slurm.SUCCESS
end

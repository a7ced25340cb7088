-- Where nothing is asked for, the fast nodes; old names of features are translated.
local NEW = { ivybridge = "fast", haswell = "fast" }

function slurm_job_submit(job_desc, part_list, submit_uid)
    local asked = job_desc.features
    if asked == nil or asked == "" then
        job_desc.features = "fast"
    elseif NEW[asked] then
        slurm.log_user("%s is now called %s", asked, NEW[asked])
        job_desc.features = NEW[asked]
    elseif string.match(asked, "^slow") then
        slurm.log_user("there are no slow nodes")
        return slurm.ERROR
    end
    if job_desc.exc_nodes ~= nil then
        job_desc.exc_nodes = "n1"
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

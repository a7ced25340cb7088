-- A course has a reservation; jobs of old names of it are led there, and nobody else's.
local OLD = { ["course-2021"] = "course", ["test"] = "course" }

function slurm_job_submit(job_desc, part_list, submit_uid)
    local asked = job_desc.reservation
    if asked ~= nil and OLD[asked] ~= nil then
        slurm.log_user("the reservation %s is now '%s'", asked, OLD[asked])
        job_desc.reservation = OLD[asked]
    elseif asked == nil and job_desc.name ~= nil and string.match(job_desc.name, "^course[_%-]") then
        job_desc.reservation = "course"
        if job_desc.time_limit == slurm.NO_VAL or job_desc.time_limit > 30 then
            job_desc.time_limit = 30
        end
    end
    if job_desc.reservation == "nosuch" then
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    if job_desc.reservation ~= nil then
        slurm.log_user("ask the operators")
        return slurm.ESLURM_ACCESS_DENIED
    end
    return slurm.SUCCESS
end

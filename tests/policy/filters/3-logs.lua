-- What a site keeps about each submission: options and environment, and a value between two hooks.
function slurm_cli_setup_defaults(options, early)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
    slurm.log_info("%s", slurm.json_cli_options(options))
    local env = slurm.json_env()
    slurm.log_info("environment is an object: %s", tostring(string.sub(env, 1, 1) == "{"))
    slurm.cli_store(1, "kept between hooks")
    slurm.log_verbose("only with -v")
    if options['argv'] ~= nil then
        slurm.log_info("first word %s", tostring(options['argv'][1]))
    end
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    slurm.log_info("%s", tostring(slurm.cli_retrieve(1)))
    return slurm.SUCCESS
end

-- A site refuses in the command what its users get wrong, and mends what it can.
function slurm_cli_setup_defaults(options, early)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
    if options['account'] == nil then
        slurm.log_error("which account pays? --account=NAME")
        return slurm.ERROR
    end
    if options['partition'] ~= nil and string.find(options['partition'], 'gpu') and options['gres'] == nil
        and options['gpus'] == nil then
        slurm.log_error("the partition gpu is for jobs with GPUs")
        return slurm.ERROR
    end
    if options['mem'] ~= nil and options['mem-per-cpu'] ~= nil then
        slurm.log_info("two sizes of memory")
    end
    if options['job-name'] == 'rename' then
        options['job-name'] = 'renamed'
    end
    if options['job-name'] == 'wrong' then
        options['time'] = 'nonsense'
    end
    if options['comment'] == nil then
        options['comment'] = 'none'
    end
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end

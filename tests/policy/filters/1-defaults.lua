-- Defaults before options are read, and a note of what the user has asked for.
function slurm_cli_setup_defaults(options, early)
    options['time'] = '45'
    options['comment'] = 'by the filter'
    if options['type'] == 'sbatch' then
        options['mem-per-cpu'] = '200'
    end
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
    local words = {}
    for _, name in ipairs({ 'type', 'time', 'mem-per-cpu', 'comment', 'partition', 'nodes', 'ntasks', 'job-name',
                            'hold', 'array', 'gres', 'qos', 'account', 'exclusive', 'constraint', 'mem' }) do
        words[#words + 1] = name .. '=' .. tostring(options[name])
    end
    slurm.log_info("%s", table.concat(words, ' '))
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    slurm.log_info("component %d is sent", offset)
    return slurm.SUCCESS
end

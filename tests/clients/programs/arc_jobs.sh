# ARC (NorduGrid, WLCG), its scripts for Slurm: one job ends, one fails, one is cancelled; what they
# find out about them, with scontrol and with sacct, and about the cluster.
set -eu
export ARC_LOCATION="$(python -c 'import sys; print(sys.prefix)')/debian/usr"
export PYTHONPATH="$ARC_LOCATION/lib/python3/dist-packages"
share="$ARC_LOCATION/share/arc" slurm="$(dirname "$(command -v sbatch)")"
mkdir -p control/processing sessions
configure() {
    cat >arc.conf <<END
[common]
[arex]
controldir=$PWD/control
sessiondir=$PWD/sessions
[lrms]
lrms=slurm debug
slurm_bin_path=$slurm
slurm_use_sacct=$1
slurm_wakeupperiod=1
defaultmemory=100
[queue:debug]
END
    "$ARC_LOCATION/lib/arc/arcconfig-parser" -c arc.conf -d "$share/arc.parser.defaults" \
        -r "$PWD/arc.run" --save 2>/dev/null
}
# submit NAME COMMAND: as A-REX does, by a file of its options
submit() {
    session="$PWD/sessions/$1"
    mkdir "$session"
    printf '#!/bin/sh\n%s\n' "$2" >"$session/job.sh"
    chmod +x "$session/job.sh"
    cat >"control/job.$1.grami" <<END
joboption_directory='$session'
joboption_controldir='$PWD/control'
joboption_gridid='$1'
joboption_arg_0='$session/job.sh'
joboption_stdout='$session/stdout'
joboption_stderr='$session/stderr'
joboption_queue='debug'
joboption_count=2
joboption_walltime=300
joboption_priority=60
joboption_jobname='grid job $1'
joboption_rsl_project='science'
END
    "$share/submit-SLURM-job" --config "$PWD/arc.run" "$PWD/control/job.$1.grami" >said 2>&1 || { cat said; exit 1; }
    number=$(sed -n 's/^joboption_jobid=//p' "control/job.$1.grami")
    printf 'localid=%s\nsessiondir=%s\n' "$number" "$session" >"control/job.$1.local"
    echo INLRMS >"control/processing/job.$1.status"
}
# scan NAME: until A-REX would be told that the job is over
scan() {
    for _ in $(seq 60); do
        TMPDIR="$PWD" "$share/scan-SLURM-job" --config "$PWD/arc.run" "$PWD/control" >said 2>&1 || cat said
        [ -e "control/job.$1.lrms_done" ] && return
    done
    cat said
    exit 1
}
configure no
# The environment of a job is that of a login, which games has not, and so no PATH.
submit ends "$slurm/srun /usr/bin/printenv SLURM_PROCID; pwd"
[ "$(sacct -nXPo jobname,account,ncpus,timelimit -j "$number")" = "grid_job_ends|science|2|00:05:00" ]
scan ends
[ "$(cat control/job.ends.lrms_done)" = "0 " ]
[ "$(sort sessions/ends/stdout | paste -sd" ")" = "$PWD/sessions/ends 0 1" ]
sed -n '/^WallTime=[0-9]*s$/,$p' sessions/ends.diag | grep -qx 'Processors=2'
configure yes
submit fails 'exit 3'
scan fails
[ "$(cat control/job.fails.lrms_done)" = "3 Job failed" ]
submit waits 'sleep 300'
until [ "$(squeue -ho %T -j "$number")" = RUNNING ]; do sleep 0.5; done
perl -I"$share" -MSLURMmod -e '
    my ($path, $user, $number) = @ARGV;
    my $info = SLURMmod::get_lrms_info({slurm_bin_path => $path, jobs => [$number],
        queues => {debug => {users => [$user]}}});
    my ($cluster, $queue, $job) = ($info->{cluster}, $info->{queues}{debug}, $info->{jobs}{$number});
    print join(" ", @$cluster{qw(lrms_type totalcpus usedcpus runningjobs cpudistribution)},
        @$queue{qw(running queued totalcpus maxwalltime)}, @{$queue->{nodes}},
        @$job{qw(status cpus reqwalltime mem)}, @{$job->{nodes}},
        map {"$_:$info->{nodes}{$_}{isavailable}$info->{nodes}{$_}{lcpus}"} sort keys %{$info->{nodes}}), "\n";
' "$slurm" "$USER" "$number" >found
[ "$(cat found)" = "SLURM 16 2 1 4cpu:4  1 0 16 2147483647 n1 n2 n3 n4 R 2 300 4000 n1 n1:14 n2:14 n3:14 n4:14" ]
"$share/cancel-SLURM-job" --config "$PWD/arc.run" "$PWD/control/job.waits.grami" >said 2>&1
scan waits
grep -q '^\(15\|271\) Job was cancelled' control/job.waits.lrms_done
echo "ARC $(sed -n "s/^ARC_VERSION = '\(.*\)'/\1/p" "$PYTHONPATH/arc/paths_dist.py") ok"

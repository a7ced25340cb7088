#!/bin/bash
# Run Debian's Slurm beside ours, to measure both in turn: bench/peer.sh up|down DIRECTORY
# Nothing is installed: packages are unpacked below DIRECTORY, and the daemons see them through an
# overlay in a mount namespace of their own. Each slurmd has a host name of its own (UTS namespace).
# Needs root and apt. `up` writes DIRECTORY/env, which the benchmarks take with --peer-env.
# TUNING replaces SchedulerParameters; NODES, CPUS and GPUS shape the cluster; PREFIX names its nodes
# (p1, p2, ... without it); TOPOLOGY names a topology.conf over them; CONF names a file with lines for
# slurm.conf that take precedence.
set -euo pipefail

die() { echo "peer: error: $*" >&2; exit 1; }
[ $# = 2 ] || die "usage: bench/peer.sh up|down DIRECTORY"
action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
nodes=${NODES:-4}
cpus=${CPUS:-16}
gpus=${GPUS:-0}
prefix=${PREFIX:-p}
conf=$(realpath "${CONF:-/dev/null}")
tuning=${TUNING:-"defer_batch,sched_min_interval=20000,default_queue_depth=10000,bf_interval=2"}

down() {
    for name in slurmctld slurmdbd mariadbd munged; do
        [ -s "$dir/$name.pid" ] && kill "$(cat "$dir/$name.pid")" 2>/dev/null || true
    done
    for file in "$dir"/slurmd-*.pid; do
        [ -s "$file" ] && kill "$(cat "$file")" 2>/dev/null || true
    done
    for _ in $(seq 100); do
        pgrep -F "$dir/mariadbd.pid" >/dev/null 2>&1 || break
        sleep 0.1
    done
}
if [ "$action" = down ]; then down; exit 0; fi
[ "$action" = up ] || die "$action: up or down is allowed"
[ "$(id -u)" = 0 ] || die "it takes root"
command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || die "mariadb-server is not installed"
command -v munged >/dev/null || [ -x /usr/sbin/munged ] || die "munge is not installed"
PATH=$PATH:/usr/sbin

root=$dir/root
if [ ! -x "$root/usr/sbin/slurmctld-wlm" ]; then
    mkdir -p "$dir/debs" "$root"
    ( cd "$dir/debs" && apt-get download -q slurmctld slurmd slurm-client slurmdbd \
        slurm-wlm-basic-plugins slurm-wlm-mysql-plugin libslurm38 libhwloc15 >/dev/null 2>&1 ) ||
        die "apt-get could not download slurm's packages"
    for package in "$dir"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
    # Debian makes these names when it installs.
    for name in slurmctld slurmd slurmstepd; do ln -sf "$name-wlm" "$root/usr/sbin/$name"; done
fi

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
db_port=$(free_port); ctld_port=$(free_port); dbd_port=$(free_port); base=$((23000 + RANDOM % 5000))

# munge and MariaDB, private to this directory.
chmod 755 "$dir"
head -c 1024 /dev/urandom >"$dir/munge.key"; chmod 400 "$dir/munge.key"
munged --force --socket="$dir/munge.socket" --key-file="$dir/munge.key" --pid-file="$dir/munged.pid" \
    --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" 2>/dev/null
mkdir -p "$dir/db"
chown mysql "$dir/db"
[ -d "$dir/db/mysql" ] || mariadb-install-db --user=mysql --datadir="$dir/db" --auth-root-authentication-method=normal >/dev/null
mariadbd --no-defaults --user=mysql --datadir="$dir/db" --port="$db_port" --bind-address=127.0.0.1 \
    --socket="$dir/db/sock" --pid-file="$dir/db/pid" --skip-grant-tables --innodb-buffer-pool-size=256M \
    >"$dir/mariadbd.log" 2>&1 &
echo $! >"$dir/mariadbd.pid"

host=$(hostname -s)
gres=
if [ "$gpus" -gt 0 ]; then
    gres=" Gres=gpu:$gpus"
    for i in $(seq "$gpus"); do
        [ -e "$dir/gpu$i" ] || mknod -m 666 "$dir/gpu$i" c 1 3
    done
    echo "Name=gpu File=$dir/gpu[1-$gpus]" >"$dir/gres.conf"
fi
mkdir -p "$dir/state" "$dir/log"
cd "$dir/log"  # where a core file may go
{
    echo "ClusterName=peer"
    echo "SlurmctldHost=$host(127.0.0.1)"
    echo "SlurmctldPort=$ctld_port"
    echo "SlurmUser=root"
    echo "AuthType=auth/munge"
    echo "AuthInfo=socket=$dir/munge.socket"
    echo "PluginDir=$root/usr/lib/x86_64-linux-gnu/slurm-wlm"
    echo "StateSaveLocation=$dir/state"
    echo "SlurmctldPidFile=$dir/slurmctld.pid"
    echo "SlurmctldLogFile=$dir/log/slurmctld.log"
    echo "SlurmdPidFile=$dir/slurmd-%h.pid"
    echo "SlurmdLogFile=$dir/log/slurmd-%h.log"
    echo "SlurmdSpoolDir=$dir/spool-%h"
    echo "SlurmdParameters=config_overrides"
    echo "ProctrackType=proctrack/linuxproc"
    echo "TaskPlugin=task/none"
    echo "ReturnToService=2"
    echo "SchedulerType=sched/backfill"
    echo "SchedulerParameters=$tuning"
    echo "SelectType=select/cons_tres"
    echo "SelectTypeParameters=CR_Core"
    echo "MaxJobCount=300000"
    echo "MaxArraySize=200001"
    echo "AccountingStorageType=accounting_storage/slurmdbd"
    echo "AccountingStorageHost=127.0.0.1"
    echo "AccountingStoragePort=$dbd_port"
    echo "AccountingStoragePass=$dir/munge.socket"
    for i in $(seq "$nodes"); do
        echo "NodeName=$prefix$i NodeAddr=127.0.0.1 Port=$((base + i)) CPUs=$cpus CoresPerSocket=$cpus" \
            "RealMemory=8192$gres"
    done
    [ -z "${TOPOLOGY:-}" ] || echo "TopologyPlugin=topology/tree"
    [ "$gpus" = 0 ] || echo "GresTypes=gpu"
    echo "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
} >"$dir/slurm.conf.own"
# A key that comes twice would be an error line of each command.
awk 'function key() { split($0, part, /=|[ \t]/); return part[1] ~ /^(Node|Partition)Name$/ ? $1 : part[1] }
     NR == FNR { seen[key()]; print; next }
     !(key() in seen)' "$conf" "$dir/slurm.conf.own" >"$dir/slurm.conf"
[ -z "${TOPOLOGY:-}" ] || cat "$TOPOLOGY" >"$dir/topology.conf"
{
    echo "DbdHost=localhost"
    echo "DbdPort=$dbd_port"
    echo "SlurmUser=root"
    echo "AuthType=auth/munge"
    echo "AuthInfo=socket=$dir/munge.socket"
    echo "PluginDir=$root/usr/lib/x86_64-linux-gnu/slurm-wlm"
    echo "PidFile=$dir/slurmdbd.pid"
    echo "LogFile=$dir/log/slurmdbd.log"
    echo "StorageType=accounting_storage/mysql"
    echo "StorageHost=127.0.0.1"
    echo "StoragePort=$db_port"
    echo "StorageUser=root"
    echo "StorageLoc=slurm_acct_db"
} >"$dir/slurmdbd.conf"
chmod 600 "$dir/slurmdbd.conf"
{
    echo "PATH=$root/usr/bin"
    echo "LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu/slurm-wlm:$root/usr/lib/x86_64-linux-gnu"
    echo "SLURM_CONF=$dir/slurm.conf"
} >"$dir/env"
export SLURM_CONF=$dir/slurm.conf

# The daemons look for slurmstepd and plugins below /usr; only they see them there.
inside() { unshare -m "$@"; }
overlay='mount -t overlay overlay -o lowerdir="$0/usr:/usr" /usr || exit 1'
for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$db_port") 2>/dev/null && break; sleep 0.1; done
inside sh -c "$overlay; exec slurmdbd" "$root"
for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$dbd_port") 2>/dev/null && break; sleep 0.1; done
env=(env "LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu/slurm-wlm:$root/usr/lib/x86_64-linux-gnu")
"${env[@]}" "$root/usr/bin/sacctmgr" -i add cluster peer >/dev/null || true
inside sh -c "$overlay; exec slurmctld -f $dir/slurm.conf" "$root"
for i in $(seq "$nodes"); do
    mkdir -p "$dir/spool-$prefix$i"
    unshare -m -u sh -c "hostname $prefix$i; $overlay; exec slurmd -f $dir/slurm.conf" "$root"
done
for _ in $(seq 300); do
    idle=$("${env[@]}" "$root/usr/bin/sinfo" -h -t idle -o %D 2>/dev/null || true)
    [ "$idle" = "$nodes" ] && { echo "peer: $("${env[@]}" "$root/usr/bin/sinfo" -V), $nodes nodes, environment in $dir/env"; exit 0; }
    sleep 0.1
done
tail -n 5 "$dir"/log/*.log >&2
down
die "not all nodes became idle"

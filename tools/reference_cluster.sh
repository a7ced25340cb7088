#!/bin/bash
# Run a command on a cluster like the one that tests/golden/cli was recorded on.
#
#   tools/reference_cluster.sh [-c CONF_DIRECTORY] [-e EXTRA_SLURM_CONF_LINE]... COMMAND [ARGUMENT]...
#
# Controller `ctl`, login host `login`, nodes n1 to n4, users alice, bob and carol: all in
# namespaces of their own, so nothing of this host is changed and nothing is left when the command
# ends. Directories are the usual ones (/etc/slurm, /var/spool, /var/log/slurm, /home). Needs root.
# The daemons' logs are in /var/log/slurm; copy them from inside the command if you want them.
#
# With a script that records commands to DIRECTORY/PART/NAME.txt:
#   tools/reference_cluster.sh python3 record.py --out /tmp/observed
#   tools/compare_reference.py tests/golden/cli /tmp/observed --diff
set -u
here=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    echo "Usage: ${0##*/} [-c CONF_DIRECTORY] [-e EXTRA_SLURM_CONF_LINE]... COMMAND [ARGUMENT]..." >&2
    exit 2
}

if [ "${1-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || { echo "${0##*/}: error: only root can make namespaces" >&2; exit 2; }
    # Mount points must be there; they stay empty outside.
    mkdir -p /etc/slurm /var/log/slurm /run/slurm /dev/fake
    exec unshare -m -u -n -p -i -f --mount-proc --kill-child bash "$0" --inside "$@"
fi
shift

conf=$here/tests/golden/cli/conf
extra=
while getopts "c:e:" option; do
    case $option in
    c) conf=$OPTARG ;;
    e) extra+=$OPTARG$'\n' ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
[ -f "$conf/slurm.conf" ] || { echo "${0##*/}: error: $conf: no slurm.conf there" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hostname login
ip link set lo up

# What runs here is the code as it was at the start, whatever is edited meanwhile.
cp -a "$here/src" "$work/src"
mount --bind "$work/src" "$here/src"

users="slurm:64030 alice:1001 bob:1002 carol:1003"
grep -v ':\(64030\|100[1-3]\):' /etc/passwd >"$work/passwd"
grep -v ':\(64030\|100[1-3]\):' /etc/group >"$work/group"
for user in $users; do
    name=${user%:*} id=${user#*:}
    echo "$name:x:$id:$id::/home/$name:/bin/bash" >>"$work/passwd"
    echo "$name:x:$id:" >>"$work/group"
done
{ cat /etc/hosts; echo 127.0.0.1 ctl login n1 n2 n3 n4; } >"$work/hosts"
for file in passwd group hosts; do mount --bind "$work/$file" /etc/$file; done
for directory in /etc/slurm /var/log/slurm /run/slurm /var/spool /home; do
    mount -t tmpfs -o mode=755 none $directory
done
mount -t tmpfs -o dev,mode=755 none /dev/fake
for number in 0 1 2 3; do mknod -m 666 /dev/fake/gpu$number c 195 $number; done
for user in $users; do mkdir -m 755 /home/${user%:*} && chown "${user%:*}:" /home/${user%:*}; done
mkdir -p /var/spool/slurmctld /var/spool/slurmd
chown slurm:slurm /var/spool/slurmctld /run/slurm /var/log/slurm

sed -e 's|^AuthType=.*|AuthType=auth/slurm|' -e 's|^CredType=.*|CredType=cred/slurm|' \
    "$conf/slurm.conf" >/etc/slurm/slurm.conf
printf '%s' "$extra" >>/etc/slurm/slurm.conf
for file in gres.conf topology.conf cgroup.conf; do
    [ ! -f "$conf/$file" ] || cp "$conf/$file" /etc/slurm/
done
cat >/etc/slurm/slurmdbd.conf <<END
AuthType=auth/slurm
DbdHost=ctl
DbdAddr=127.0.0.1
DbdPort=6819
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/sqlite
StorageLoc=/var/spool/slurmctld/slurmdbd.sqlite
END
head -c 1024 /dev/urandom >/etc/slurm/slurm.key
chmod 600 /etc/slurm/slurm.key /etc/slurm/slurmdbd.conf
chown slurm:slurm /etc/slurm/slurm.key /etc/slurm/slurmdbd.conf

export SLURM_CONF=/etc/slurm/slurm.conf LANG=C.UTF-8 TZ=UTC
export PATH=$here/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /

on() { # HOST COMMAND...: in a host name space of its own
    local host=$1
    shift
    unshare -u bash -c "hostname $host && exec \"\$@\"" on "$@" && return
    echo "${0##*/}: error: $host: $1 did not start; its log ends:" >&2
    tail -n 5 /var/log/slurm/*.log >&2
    exit 1
}

on ctl setpriv --reuid slurm --regid slurm --clear-groups slurmdbd
sacctmgr -i add cluster demo >/dev/null || exit 1
on ctl slurmctld
for node in n1 n2 n3 n4; do on $node slurmd; done
[ ! -f "$conf/accounts.sh" ] || bash "$conf/accounts.sh" >/dev/null || exit 1
for _ in $(seq 60); do
    [ "$(sinfo -h -t idle -o %D | head -n 1)" != 4 ] || break
    sleep 0.5
done
"$@"

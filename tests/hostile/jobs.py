"""What came after the review: private directories, containers, files sent, plugins."""

from __future__ import annotations

import json
import shlex

from tests.hostile.attacks import ANY, Attack, does, runs, tested

INTO = "2>/dev/null && echo ESCAPED"
FAILS = r"error"

PRIVATE = (
    tested("who writes on after the end", "tests/d/stepd/test_job_namespace.py"),
    tested("no transfer outlives its job", "tests/d/test_file_transfers.py"),
    runs("directories of others", f"ls {{base}} {{base}}/n1 {INTO}; cat {{base}}/*/*/.*/_tmp/* "
         f"{INTO}; true"),
    runs("the host's", f"umount /tmp {INTO}; umount -l /dev/shm {INTO}; nsenter -t 1 -m true "
         f"{INTO}; nsenter -t $PPID -m true {INTO}; true"),
    runs("the way up", f"ls /tmp/../../base {INTO}; ls /proc/self/root/../base {INTO}; "
         f"cd /tmp/..; test -e {{base}}/n1/1 {INTO}; true"),
    runs("devices and set-uid programs", f"mknod /tmp/d b 254 0 {INTO}; cp /bin/id /tmp/id; "
         f"chown root /tmp/id {INTO}; true"),
    runs("links out of it", f"ln -s /etc/shadow /tmp/l; cat /tmp/l {INTO}; ln /etc/shadow /tmp/h "
         f"{INTO}; true"),
    runs("mounts in a namespace of its own", "unshare -Urm sh -c 'mount --bind /etc /tmp; mount -t "
         "tmpfs none /dev/shm; mkdir /dev/shm/x'; test -e /tmp/passwd && echo ESCAPED; true"),
    runs("shared mounts", "unshare -Urm sh -c 'mount --make-rshared / ; mount -t tmpfs none /tmp; "
         "touch /tmp/psng-x'; true"),
    runs("a mount that stays", "(setsid unshare -Urm sh -c 'mount -t tmpfs none /tmp; sleep 100' "
         ">/dev/null 2>&1 &); sleep 0.3; true"),
    runs("directories without rights", "mkdir -p /tmp/a/b/c; touch /tmp/a/b/c/f; chmod 0 "
         "/tmp/a/b/c /tmp/a/b /tmp/a; true"),
    runs("names that are odd", "touch /tmp/$(printf 'a\\nb') /tmp/-rf '/tmp/ ' /tmp/.ns /tmp/.lock;"
         " mkdir /tmp/.ns.d /tmp/...; true"),
    runs("FIFOs and sockets", "mkfifo /tmp/f; mkfifo /dev/shm/f; python3 -c \"import socket; "
         "socket.socket(socket.AF_UNIX).bind('/tmp/s')\"; true"),
    runs("what another job has left", "test $(ls -A /tmp | wc -l) = 0 || echo ESCAPED; "
         "test $(ls -A /dev/shm | wc -l) = 0 || echo ESCAPED; true"),
)  # fmt: skip


def bundle(name: str, config: object, seen: str = FAILS, text: str = "") -> Attack:
    """Return a task in a bundle with a config.json; the runtime of the arena does nothing."""
    words = shlex.quote(text or json.dumps(config))
    folder = "b" + "".join(char for char in name if char.isalnum())
    line = (
        f"mkdir -p {folder}/rootfs; printf %s {words} > {folder}/config.json; "
        f"timeout 40 srun -t1 --container=$PWD/{folder} id"
    )
    return does(name, line, seen, "Traceback|internal|ESCAPED|uid=0")


HOOK = {"prestart": [{"path": "/bin/sh", "args": ["sh", "-c", "id > /tmp/ESCAPED"]}]}
ALL_IDS = [{"containerID": 0, "hostID": 0, "size": 4_294_967_295}]
CONTAINERS = (
    tested("directories of others", "tests/d/container/test_bundle.py"),
    bundle("hooks", {"hooks": HOOK}, ANY),
    bundle("all ids", {"linux": {"uidMappings": ALL_IDS, "gidMappings": ALL_IDS}}, ANY),
    bundle("a user that is a text", {"process": {"user": "root"}}),
    bundle("variables that are a number", {"process": {"env": 5}}),
    bundle("a root that is a number", {"root": {"path": 7}}),
    bundle("namespaces that are a number", {"linux": {"namespaces": 5}}),
    bundle("mounts that are a map", {"mounts": {}}),
    bundle("mounts of the host", {"mounts": [{"source": "/", "destination": "/", "options":
           ["rbind", "rw", "suid", "dev"]}]}, ANY),
    bundle("a root that leads up", {"root": {"path": "../../../../.."}}, ANY),
    bundle("no map", []),
    bundle("no JSON", None, text="{"),
    does("nested JSON", "mkdir -p nest; python3 -c \"print('[' * 200000)\" > nest/config.json; "
         "srun -t1 --container=$PWD/nest id", FAILS),
    does("a config.json that is endless", "mkdir -p zero; ln -sf /dev/zero zero/config.json; "
         "srun -t1 --container=$PWD/zero id", FAILS),
    does("a config.json that is a FIFO", "mkdir -p pipe; test -p pipe/config.json || mkfifo "
         "pipe/config.json; j=$(sbatch --parsable -t1 --container=$PWD/pipe -o /dev/null --wrap "
         "id); sleep 2; scancel $j; for n in $(seq 60); do squeue -h -j $j | grep -q . || break; "
         "sleep 0.5; done; squeue -h -j $j | grep . || echo gone", "gone"),
    does("a name with a shell's words", "mkdir -p 'x;echo ESCAPED;'; echo '{}' > "
         "'x;echo ESCAPED;/config.json'; srun -t1 --container=\"$PWD/x;echo ESCAPED;\" id 2>&1 | "
         "grep -v 'x;echo'", ANY),
    *(does(f"an image: {name}", f"timeout 40 srun -t1 --container-image={image} id", seen,
           "Traceback|internal|uid=0")
      for name, image, seen in (
          ("the host's root", "/", ANY), ("a device", "/dev/zero", FAILS),
          ("a shadow", "/etc/shadow", FAILS), ("a registry", "docker://ubuntu", FAILS),
          ("a process", "/proc/1/root", FAILS))),
    does("an archive with ways out", "python3 -c \"import tarfile, io\nwith tarfile.open('o.tar', "
         "'w') as t:\n for n in ('../../../../tmp/ESCAPED', '/etc/passwd'):\n  m = "
         "tarfile.TarInfo(n); m.size = 1; t.addfile(m, io.BytesIO(b'x'))\n m = "
         "tarfile.TarInfo('etc'); m.type = tarfile.SYMTYPE; m.linkname = '/etc'; t.addfile(m)\"; "
         "timeout 40 srun -t1 --container-image=$PWD/o.tar id", FAILS),
)  # fmt: skip

FILES = (
    tested("credentials that were stolen", "tests/d/test_file_transfers.py"),
    *(does(name, f"j=$(sbatch --parsable -t1 -o /dev/null --wrap 'sleep 6'); sleep 1; {line}; "
           "scancel $j; echo over", seen, "ESCAPED|Traceback|internal") for name, line, seen in (
        ("to a file of root's", "sbcast -f -j $j /bin/true /etc/psng-x", "denied"),
        ("to the shadow", "sbcast -f -j $j /bin/true /etc/shadow", "denied|permitted"),
        ("to a descriptor", "sbcast -f -j $j /bin/true /proc/self/fd/1", "error"),
        ("to the supervisor", "sbcast -f -j $j /bin/true /proc/self/exe", "error"),
        ("to the spool", "sbcast -f -j $j /bin/true {spool}/n1/x", "denied"),
        ("to the private directories", "sbcast -f -j $j /bin/true {base}/n1/x", "denied"),
        ("to a FIFO", "test -p sf || mkfifo sf; sbcast -j $j /bin/true $PWD/sf", "error"),
        ("through a link", "ln -sf /etc/psng-y sl; sbcast -j $j /bin/true $PWD/sl", "error"),
        ("with a set-uid bit", "cp /bin/id sid; chmod 4755 sid; sbcast -fp -j $j sid $PWD/sid2; "
         "test -u sid2 && echo ESCAPED", "over"),
        ("of all memory", "truncate -s 200G huge; timeout 5 sbcast -f -j $j huge /dev/shm/huge",
         "over"),
        ("forty at once", "for n in $(seq 40); do sbcast -f -j $j /bin/true /tmp/x$n & done "
         "2>/dev/null; wait", "over"),
        ("while the job ends", "for n in $(seq 20); do sbcast -f -j $j /bin/true /tmp/x$n & done "
         "2>/dev/null; scancel $j; wait", "over"),
    )),
)  # fmt: skip

OPTION = "_SLURM_SPANK_OPTION_seen_x"
PLUGINS = (
    tested("plugins of others, and what they hold up", "tests/d/stepd/test_plugins.py"),
    *(does(name, "timeout 40 srun -t1 sh -c 'echo $SEEN; id -u'", r"\n5\n",
           "Traceback|internal|ESCAPED", **variables) for name, variables in (
        ("an option of a plugin", {OPTION: "1"}), ("an odd option", {OPTION: "\x1b[31m\n;rm"}),
        ("an option of none", {"_SLURM_SPANK_OPTION_": "x"}),
        ("a long option", {OPTION: "x" * 100_000}), ("a path", {"PYTHONPATH": "{work}"}),
        ("a home", {"PYTHONHOME": "/nowhere"}), ("a start", {"PYTHONSTARTUP": "/etc/shadow"}),
        ("an inspection", {"PYTHONINSPECT": "1"}), ("a loader", {"LD_PRELOAD": "/nowhere.so"}),
        ("a library", {"LD_LIBRARY_PATH": "/tmp"}), ("a variable of ours", {"SEEN": "ESCAPED"}),
        ("a stack of one's own", {"SLURM_PLUGSTACK": "/tmp/x"}))),
    does("modules in the working directory", "for m in json os resource select tempfile zlib; do "
         "echo 'print(\"ESCAPED\")' > $m.py; done; timeout 40 srun -t1 id -u; rm -f json.py os.py "
         "resource.py select.py tempfile.py zlib.py", r"5"),
)  # fmt: skip

CLASSES: dict[str, tuple[Attack, ...]] = {
    "private": PRIVATE, "containers": CONTAINERS, "files": FILES, "plugins": PLUGINS,
}  # fmt: skip

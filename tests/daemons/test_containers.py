"""Tasks in OCI bundles and in images, with real daemons, as ordinary users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.kernels.process import unshare
from tests.d.mounts import in_child
from tests.daemons.faults import AS_OTHERS, as_user, open_directory, submit_as, without_faults
from tests.daemons.image_registry import Registry
from tests.daemons.live import LiveCluster, start

OWNER = "games"
PROGRAMS = ("sh", "ls", "cat", "env", "id", "sleep", "touch", "grep")


def can_unshare() -> bool:
    """Whether a user may make a user namespace, and mount in it."""

    def work() -> None:
        os.setgid(65534)
        os.setuid(65534)
        unshare(0x10000000 | 0x20000)

    return in_child(work) == "None"


pytestmark = [
    *AS_OTHERS,
    pytest.mark.skipif(not can_unshare(), reason="users may not make user namespaces here"),
]
NEEDS_RUNC = pytest.mark.skipif(shutil.which("runc") is None, reason="runc is not installed")
RUNC = "runc --rootless=true --root=%m/state"
OCI = f"""\
EnvExclude="^SLURM_CONF=" CreateEnvFile=newline
RunTimeRun="{RUNC} run %n.%u.%j.%s.%t -b %b"
RunTimeQuery="{RUNC} state %n.%u.%j.%s.%t"
RunTimeKill="{RUNC} kill -a %n.%u.%j.%s.%t"
RunTimeDelete="{RUNC} delete --force %n.%u.%j.%s.%t"
"""


def make_root(root: Path) -> None:
    """Make a root file system of some of this host's programs."""
    for name in ("proc", "sys", "dev", "tmp", "etc", "var/run/slurm", "bin"):
        (root / name).mkdir(parents=True)
    for name in PROGRAMS:
        program = os.path.realpath(shutil.which(name) or name)
        shutil.copy(program, root / "bin" / name)
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        for word in listed.stdout.split():
            if word.startswith("/") and not (root / word[1:]).exists():
                (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, root / word[1:])
    (root / "etc" / "which").write_text("image\n")
    # In its user's namespace an overlay takes no changes of what others own.
    for path in (root, *root.rglob("*")):
        os.chown(path, 5, 60, follow_symlinks=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        (directory / "c" / "etc").mkdir(parents=True)
        (directory / "c").chmod(0o755)
        (directory / "c" / "etc" / "oci.conf").write_text(OCI)
        made = start(directory / "c", "--nodes", "1", "--cpus", "8")
        with without_faults(made):
            yield made


@pytest.fixture(scope="module")
def bundle(cluster: LiveCluster) -> Path:
    directory = cluster.directory.parent / "bundle"
    make_root(directory / "rootfs")
    if shutil.which("runc"):
        subprocess.run(["runc", "spec", "--rootless"], cwd=directory, check=True)
        config = json.loads((directory / "config.json").read_text())
        config["process"]["env"] = ["PATH=/bin", "OF_BUNDLE=1"]
        config["root"]["readonly"] = False
        (directory / "config.json").write_text(json.dumps(config))
    return directory


@pytest.fixture(scope="module")
def archive(bundle: Path) -> Path:
    path = bundle.parent / "image.tar"
    with tarfile.open(path, "w") as made:
        made.add(bundle / "rootfs", arcname=".")
    path.chmod(0o644)
    return path


@pytest.fixture(scope="module")
def work(cluster: LiveCluster) -> Path:
    directory = cluster.directory.parent / "work"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def srun(cluster: LiveCluster, work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return as_user(cluster, OWNER, "srun", *words, cwd=work)


@NEEDS_RUNC
def test_tasks_run_in_a_bundle(cluster: LiveCluster, bundle: Path, work: Path) -> None:
    """Each in its own, with the job's variables, streams and exit code."""
    said = srun(
        cluster, work, "-n2", f"--container={bundle}", "--container-id=mine", "sh", "-c",
        "cat /etc/which; env | grep -e ^SLURM_CONTAINER -e ^OF_ -e ^SLURM_CONF=; exit 3",
    )  # fmt: skip
    assert said.returncode == 3, said.stderr
    variables = ["image", f"SLURM_CONTAINER={bundle}", "SLURM_CONTAINER_ID=mine", "OF_BUNDLE=1"]
    assert sorted(said.stdout.splitlines()) == sorted(variables * 2)


@NEEDS_RUNC
def test_scripts_run_in_a_bundle_and_listings_name_it(
    cluster: LiveCluster, bundle: Path, work: Path
) -> None:
    script, out = work / "script", work / "out"
    script.write_text("#!/bin/sh\ncat /etc/which\necho $1\nsleep 300\n")
    words = (f"--container={bundle}", "-o", "out", str(script), "word")
    job_id = submit_as(cluster, OWNER, *words, cwd=work)
    cluster.wait_until("output", lambda: out.exists() and "word" in out.read_text())
    assert out.read_text() == "image\nword\n"
    assert f"Container={bundle}" in cluster.out("scontrol", "show", "job", str(job_id))
    assert cluster.out("squeue", "-h", "-O", "container:200").strip() == str(bundle)
    as_user(cluster, OWNER, "scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert cluster.accounted(job_id, "Container%200").strip() == str(bundle)


@NEEDS_RUNC
def test_a_container_ends_with_its_step(cluster: LiveCluster, bundle: Path, work: Path) -> None:
    in_step = (
        f"srun --container={bundle} --container-id=mine sh -c 'echo 1 > /etc/begun; sleep 4711'"
    )
    job_id = submit_as(cluster, OWNER, "-o", "/dev/null", "--wrap", in_step, cwd=work)
    cluster.wait_until("start", (bundle / "rootfs" / "etc" / "begun").exists)
    steps = cluster.out("scontrol", "show", "step", f"{job_id}.0")
    assert f"Container={bundle} ContainerID=mine\n" in steps
    assert cluster.out("scontrol", "show", "step", "container-id=mine") == steps
    missing = cluster.run("scontrol", "show", "step", "container-id=other")
    assert (missing.returncode, missing.stdout) == (1, "Job step container-id=other not found\n")
    shown = cluster.out("squeue", "-h", "-s", "-O", "stepid:20,containerid:20").splitlines()
    assert [f"{job_id}.0", "mine"] in [line.split() for line in shown]
    as_user(cluster, OWNER, "scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    running = subprocess.run(["pgrep", "-f", "^sleep 4711"], capture_output=True, check=False)
    assert running.stdout == b""


def test_tasks_run_in_an_image(cluster: LiveCluster, bundle: Path, work: Path) -> None:
    """As the user, with the host's processes; what is written is gone, and the image as it was."""
    said = srun(
        cluster, work, f"--container-image={bundle}/rootfs", "sh", "-c",
        "cat /etc/which; id -u; touch /etc/new && ls /etc/new; ls /proc/1/stat; kill -TERM $$",
    )  # fmt: skip
    assert said.stdout.split() == ["image", "5", "/etc/new", "/proc/1/stat"], said.stderr
    assert said.returncode == 143
    assert not (bundle / "rootfs" / "etc" / "new").exists()


def test_options_of_images(cluster: LiveCluster, archive: Path, work: Path) -> None:
    said = srun(
        cluster, work, f"--container-image={archive}", f"--container-mounts={work}:/mnt:ro",
        "--container-workdir=/mnt", "--container-remap-root", f"--container-save={work}/saved.tar",
        "sh", "-c", "id -u; pwd; touch /mnt/x 2>/dev/null || echo ro; echo new > /etc/new",
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (0, "0\n/mnt\nro\n"), said.stderr
    with tarfile.open(work / "saved.tar") as saved:
        assert "etc/new" in saved.getnames()
    words = (f"--container-image={archive}", "--container-readonly", "touch", "/etc/x")
    assert "Read-only file system" in srun(cluster, work, *words).stderr


def test_a_named_container_is_kept(cluster: LiveCluster, archive: Path, work: Path) -> None:
    name = f"psng-{os.getpid()}"
    words = (f"--container-name={name}", "sh", "-c")
    srun(cluster, work, f"--container-image={archive}", *words, "echo kept > /etc/kept")
    said = srun(cluster, work, *words, "cat /etc/kept")
    shutil.rmtree(f"/tmp/slurm-containers-5/{name}")
    assert said.stdout == "kept\n", said.stderr


@pytest.mark.skipif(
    not (shutil.which("mksquashfs") and shutil.which("unsquashfs")),
    reason="squashfs-tools are not installed",
)
def test_squashfs_files_are_images(cluster: LiveCluster, bundle: Path, work: Path) -> None:
    """As enroot keeps images: they are read, and written by --container-save."""
    image = bundle.parent / "image.sqsh"
    words = ["mksquashfs", str(bundle / "rootfs"), str(image), "-noappend", "-quiet"]
    subprocess.run(words, check=True, capture_output=True)
    image.chmod(0o644)
    save = f"--container-save={work}/saved.sqsh"
    said = srun(
        cluster, work, f"--container-image={image}", save,
        "sh", "-c", "cat /etc/which; echo new > /etc/new",
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (0, "image\n"), said.stderr
    said = srun(cluster, work, f"--container-image={work}/saved.sqsh", "cat", "/etc/new")
    assert (said.returncode, said.stdout) == (0, "new\n"), said.stderr


@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
def test_images_of_a_registry_are_pulled(cluster: LiveCluster, archive: Path, work: Path) -> None:
    """With the image's variables; of the puller no file and no process is left."""
    registry = Registry("of/tools", archive.read_bytes(), ["PATH=/bin", "OF_IMAGE=1"])
    before = set(Path("/tmp").glob("podman-*"))
    settings = work / "registries.conf"
    where = f"127.0.0.1:{registry.port}"
    settings.write_text(f'[[registry]]\nlocation = "{where}"\ninsecure = true\n')
    variables = {"HOME": str(work), "CONTAINERS_REGISTRIES_CONF": str(settings)}
    try:
        words = ("sh", "-c", "cat /etc/which; echo $OF_IMAGE")
        image = f"--container-image=docker://{where}/of/tools"
        said = as_user(cluster, OWNER, "srun", image, *words, cwd=work, **variables)
        assert (said.returncode, said.stdout) == (0, "image\n1\n"), said.stderr
        image = f"--container-image={where}/none"
        said = as_user(cluster, OWNER, "srun", image, "true", cwd=work, **variables)
        assert (said.returncode, f"container: {image}: podman: " in said.stderr) == (1, True), said
    finally:
        registry.close()
    assert set(Path("/tmp").glob("podman-*")) == before


def test_the_shell_of_salloc_is_in_an_image(cluster: LiveCluster, bundle: Path, work: Path) -> None:
    """With use_interactive_step, whatever InteractiveStepOptions are."""
    conf = work / "slurm.conf"
    text = Path(cluster.environment["SLURM_CONF"]).read_text()
    more = 'LaunchParameters=use_interactive_step\nInteractiveStepOptions="--interactive $SHELL"\n'
    conf.write_text(text + more)
    (work / "slurm.key").symlink_to(Path(cluster.environment["SLURM_CONF"]).with_name("slurm.key"))
    words = ["setpriv", "--reuid=games", "--regid=60", "--clear-groups", "salloc", "-Q"]
    said = subprocess.run(
        [*words, f"--container-image={bundle}/rootfs", "--container-mount-home"],
        input="cat /etc/which; exit 4\n", cwd=work, capture_output=True, text=True, check=False,
        env={
            **cluster.environment, "SLURM_CONF": str(conf), "SHELL": "/bin/sh", "HOME": str(work),
        },
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (4, "image\n"), said.stderr


def test_a_command_of_salloc_is_in_no_image(cluster: LiveCluster, work: Path) -> None:
    """It runs on the login host, and so does a shell without use_interactive_step."""
    said = as_user(cluster, OWNER, "salloc", "--container-image=/x.tar", "true", cwd=work)
    assert said.returncode == 1
    assert said.stderr == (
        "salloc: error: --container-image: only salloc's shell is in an image, with "
        "LaunchParameters=use_interactive_step\n"
    )


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--container=/nowhere", "container: /nowhere/config.json: No such file or directory"),
        ("--container-image=/no/image.tar", "--container-image=/no/image.tar: no such file or"),
        ("--container-name=none-such", "there is no such container here"),
    ],
)
def test_what_is_not_there_is_named(
    cluster: LiveCluster, work: Path, option: str, text: str
) -> None:
    said = srun(cluster, work, option, "true")
    assert said.returncode == 1
    assert text in said.stderr


def test_a_mount_of_what_is_not_there_is_named(
    cluster: LiveCluster, bundle: Path, work: Path
) -> None:
    image = f"--container-image={bundle}/rootfs"
    said = srun(cluster, work, image, "--container-mounts=/nowhere:/data", "true")
    assert said.returncode == 1
    assert "container: /nowhere: No such file or directory" in said.stderr

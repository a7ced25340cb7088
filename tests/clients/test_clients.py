"""Real programs that drive Slurm run unchanged on a live cluster, each as an ordinary user.

`make soak` installs them from the package registries into an environment of their own, which goes
again. PYSLURM_CLIENTS names an environment to keep and use again. `-k NAME` runs one client.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons.faults import AS_OTHERS, open_directory, tracebacks
from tests.daemons.live import BIN, SBIN, LiveCluster, start

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
CLIENTS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "clients.toml").read_text())
USER, ACCOUNT = "games", "science"
ADMINISTRATOR = "news"
RUNNERS = {".py": "python", ".sh": "bash", ".R": "Rscript"}
SITE_CONF = Path("/etc/slurm/slurm.conf")
# Of ordinary users: a folder of root's makes "not found" for a program into "permission denied".
USER_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
LIMIT_S = 600

pytestmark = [pytest.mark.soak, *AS_OTHERS]


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A directory that every user may enter."""
    with open_directory() as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[LiveCluster]:
    """Four nodes, one account, and slurm.conf where a site has it.

    Snakemake takes SLURM_CONF out of the environment of what it starts.
    """
    made = start(directory / "c", "--nodes", "4", "--cpus", "4", "--memory", "4000", has_web=True)
    made.out("sacctmgr", "-Qi", "add", "account", ACCOUNT)
    made.out("sacctmgr", "-Qi", "add", "user", USER, f"account={ACCOUNT}")
    made.out(
        "sacctmgr", "-Qi", "add", "user", ADMINISTRATOR, f"account={ACCOUNT}", "adminlevel=admin"
    )
    is_ours = not SITE_CONF.exists()
    if is_ours:
        SITE_CONF.parent.mkdir(exist_ok=True)
        SITE_CONF.symlink_to(made.environment["SLURM_CONF"])
    yield made
    if is_ours:
        SITE_CONF.unlink()
    errors = tracebacks(made)
    made.down()
    assert errors == []


@pytest.fixture(scope="module")
def environment(directory: Path) -> Path:
    """Where the clients' virtual environment is, or will be.

    Its interpreter is one that all users may start.
    """
    kept = os.environ.get("PYSLURM_CLIENTS")
    return Path(kept) if kept else directory / "clients"


def install(environment: Path, client: dict[str, Any]) -> None:
    """Install a client's packages; a registry that is not reached fails the test.

    uv does in seconds what takes pip minutes: seventy clients have some thousand packages.
    """
    python, uv = environment / "bin" / "python", environment / "bin" / "uv"
    if not uv.exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "uv"], check=True)
    if client.get("packages"):
        words = [uv, "pip", "install", "-q", "--python", python, *client["packages"]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    if client.get("debian"):
        words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *client["debian"]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    if client.get("unpacked"):
        unpack(environment / "debian", client["unpacked"])


def unpack(root: Path, packages: list[str]) -> None:
    """Unpack packages of Debian below a directory, without what they need and start."""
    root.mkdir(exist_ok=True)
    words = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *packages]
    subprocess.run(words, cwd=root, check=True, stdout=subprocess.DEVNULL)
    for package in root.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        package.unlink()


@pytest.mark.parametrize("name", CLIENTS)
def test_client_runs_unchanged(
    name: str, cluster: LiveCluster, environment: Path, directory: Path
) -> None:
    """Its own program says ok, and no daemon says anything of it."""
    client = CLIENTS[name]
    user = ADMINISTRATOR if client.get("is_administrator") else USER
    if client.get("is_alone"):
        environment = environment.with_name(f"{environment.name}-{name}")
    install(environment, client)
    work = directory / name
    work.mkdir()
    program = work / client["program"]
    shutil.copy(HERE / "programs" / client["program"], program)
    shutil.chown(work, user)
    path = os.pathsep.join(map(str, (environment / "bin", BIN, SBIN, *USER_PATH)))
    variables = {"PATH": path, "TMPDIR": "/tmp", "USER": user, "LOGNAME": user}
    # runuser itself may set HOME to that of the user, where games may write nothing.
    as_user = ["runuser", "-u", user, "--", "env", f"HOME={work}"]
    done = subprocess.run(
        [*as_user, RUNNERS[program.suffix], program.name, *client.get("arguments", ())],
        cwd=work,
        env={**cluster.environment, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.rstrip().endswith("ok"), done.stdout + done.stderr

"""scripts/setup.sh for users that may install nothing: one line says what to install."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def host_without(names: tuple[str, ...], folder: Path) -> str:
    """Return a PATH with what the script calls, as an ordinary user without sudo and `names`."""
    called = "apt-get bash cc dirname env grep ldconfig ls make mktemp python3 rm tail test".split()
    for name in called:
        path = shutil.which(name)
        if path and name not in names:
            (folder / name).symlink_to(path)
    ordinary = folder / "id"
    ordinary.write_text("#!/bin/bash\necho 1000\n")
    ordinary.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(("name", "package"), [("cc", "gcc"), ("make", "make")])
def test_an_ordinary_user_reads_in_one_line_what_is_missing(
    tmp_path: Path, name: str, package: str
) -> None:
    path = host_without((name,), tmp_path)
    venv = tmp_path / "venv"
    done = subprocess.run(
        [ROOT / "scripts/setup.sh", "/usr/bin/python3", venv],
        env={"PATH": path, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("setup: error: these packages are missing; as root: apt-get install ")
    assert package in line.split()
    assert not venv.exists()

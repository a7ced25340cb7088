"""The native launcher and `_run`: names, paths, exit codes, last words."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "launcher" / "pyslurm-launcher"
PACKAGE = ROOT / "src" / "pyslurm_ng"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the launcher is not built: run `make build`"
)

# A command that does what its first argument says.
TRIAL = """
import os, sys
def main(argv):
    what = argv[0]
    if what == "code": return int(argv[1])
    if what == "argv": print(sys.argv, argv); return 0
    if what == "exe":
        print(os.readlink("/proc/self/exe"), open("/proc/self/comm").read().strip())
        return 0
    if what == "raise": raise RuntimeError("two\\nlines")
    if what == "memory": raise MemoryError
    if what == "number": print(int(argv[1]) > 2**64); return 0
    if what == "older":
        problem = RuntimeError()
        problem.user_line = "the daemon is older"
        raise problem
    if what == "exit": sys.exit(argv[1])
    if what == "interrupt": raise KeyboardInterrupt
    if what == "pipe":
        while True: print("y" * 999)
    if what == "modules": print(*sorted(sys.modules)); return 0
    if what == "mute":
        sys.stderr = open("/dev/full", "w")
        sys.stderr.write("never arrives")
        return int(argv[1])
    if what == "full":
        sys.stdout = open("/dev/full", "w")
        print("never arrives")
        return 0
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return an installation with the commands `trial` and the daemon `slurmd`, both made up."""
    package = tmp_path / "lib" / "pyslurm-ng" / "pyslurm_ng"
    (package / "cli").mkdir(parents=True)
    (package / "d").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("__init__.py", "_run.py"):
        shutil.copy(PACKAGE / name, package)
    for module in ("cli/__init__.py", "d/__init__.py"):
        (package / module).touch()
    (package / "cli" / "trial.py").write_text(TRIAL)
    (package / "d" / "__main__.py").write_text(TRIAL)
    for name in ("trial", "slurmd", "nothing"):
        shutil.copy(PROGRAM, tmp_path / "bin" / name)
    return tmp_path


def run(installed: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(installed / "bin" / arguments[0]), *arguments[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_code_is_what_main_returns(installed: Path, code: int) -> None:
    assert run(installed, "trial", "code", str(code)).returncode == code


def test_main_gets_arguments_without_the_name(installed: Path) -> None:
    """Messages have the plain name, whatever path the program is called by."""
    result = run(installed, "trial", "argv", "-x", "é")
    assert result.stdout == "['trial', 'argv', '-x', 'é'] ['argv', '-x', 'é']\n"


def test_tools_see_the_daemon_by_name(installed: Path) -> None:
    """`ps`, `pidof` and init scripts compare /proc/PID/exe and comm."""
    assert run(installed, "slurmd", "exe").stdout == f"{installed}/bin/slurmd slurmd\n"


def test_symbolic_link_runs_the_program_it_points_to(installed: Path) -> None:
    (installed / "q").symlink_to(installed / "bin" / "trial")
    result = subprocess.run([str(installed / "q"), "code", "7"], check=False)
    assert result.returncode == 7


def test_unforeseen_error_is_one_line(installed: Path) -> None:
    """A user never sees a traceback; a developer asks for it."""
    result = run(installed, "trial", "raise")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        "trial: error: internal: RuntimeError: two lines (PYSLURM_DEBUG=1 shows where)\n"
    )
    assert "Traceback" in run(installed, "trial", "raise", PYSLURM_DEBUG="1").stderr


def test_too_little_memory_is_no_fault_of_ours(installed: Path) -> None:
    result = run(installed, "trial", "memory")
    assert (result.returncode, result.stderr) == (1, "trial: error: out of memory (ulimit -v)\n")


def test_a_number_of_thousands_of_digits_is_out_of_bounds(installed: Path) -> None:
    """As one of twenty is: each option says so. Python refuses to read it, which is no answer."""
    result = run(installed, "trial", "number", "9" * 5000)
    assert (result.returncode, result.stdout, result.stderr) == (0, "True\n", "")


def test_an_error_with_a_line_for_users_is_that_line(installed: Path) -> None:
    result = run(installed, "trial", "older")
    assert (result.returncode, result.stderr) == (1, "trial: error: the daemon is older\n")


def test_lock_of_a_command_server_is_no_variable_of_the_command(installed: Path) -> None:
    """A batch job would have it otherwise."""
    (installed / "lib" / "pyslurm-ng" / "pyslurm_ng" / "cli" / "trial.py").write_text(
        "import os\ndef main(argv):\n    print(sorted(os.environ))\n    return 0\n"
    )
    assert run(installed, "trial", PYSLURM_COMMAND_LOCK="7").stdout == "['PATH']\n"


def test_missing_command_is_one_line(installed: Path) -> None:
    result = run(installed, "nothing")
    assert result.returncode == 1
    assert result.stderr.startswith("nothing: error: internal: ModuleNotFoundError")
    assert result.stderr.count("\n") == 1


def test_missing_package_is_one_line(installed: Path) -> None:
    shutil.rmtree(installed / "lib" / "pyslurm-ng" / "pyslurm_ng")
    result = run(installed, "trial")
    assert result.returncode == 1
    assert result.stderr == (
        f"trial: error: internal: the Python package is missing or broken below {installed}\n"
    )


def test_sys_exit_text_goes_to_stderr(installed: Path) -> None:
    result = run(installed, "trial", "exit", "trial: error: no such thing")
    assert (result.returncode, result.stderr) == (1, "trial: error: no such thing\n")


def test_interrupt_ends_by_the_signal(installed: Path) -> None:
    """A shell loop stops at Ctrl-C only if the command is seen to die of SIGINT."""
    assert run(installed, "trial", "interrupt").returncode == -signal.SIGINT


def test_closed_pipe_ends_in_silence(installed: Path) -> None:
    """`squeue | head -1` prints nothing about a broken pipe."""
    reader, writer = os.pipe()
    child = subprocess.Popen(
        [str(installed / "bin" / "trial"), "pipe"], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    _, errors = child.communicate()
    assert (child.returncode, errors) == (-signal.SIGPIPE, b"")


def test_output_that_cannot_be_written_is_an_error(installed: Path) -> None:
    """Exit code 0 with half a file would mislead every script."""
    result = run(installed, "trial", "full")
    assert (result.returncode, result.stderr) == (
        1,
        "trial: error: write error: No space left on device\n",
    )


@pytest.mark.parametrize("code", [0, 143])
def test_errors_that_nobody_can_see_change_no_exit_code(installed: Path, code: int) -> None:
    """A terminal that has gone takes no lines; the tasks of srun ended as they ended."""
    result = run(installed, "trial", "mute", str(code))
    assert (result.returncode, result.stderr) == (code, "")


def test_environment_does_not_change_what_runs(installed: Path) -> None:
    """A user's PYTHONPATH or PYTHONSTARTUP must not reach a command, least of all root's."""
    (installed / "enum.py").write_text("raise SystemExit(9)")
    (installed / "socket.py").write_text("raise SystemExit(9)")
    result = run(installed, "trial", "code", "0", PYTHONPATH=str(installed), PYTHONHOME="/nowhere")
    assert (result.returncode, result.stderr) == (0, "")


def test_start_imports_next_to_nothing(installed: Path) -> None:
    """Each of these would cost every command milliseconds; a count is steadier than a clock."""
    loaded = set(run(installed, "trial", "modules").stdout.split())
    assert not loaded & {"site", "enum", "re", "typing", "signal", "json", "collections", "socket"}


def test_seldom_used_codecs_are_found(installed: Path) -> None:
    """Host names need `idna`, which is in the package that the launcher brings."""
    python = installed / "lib" / "pyslurm-ng" / "bin" / "pyslurm-python"
    python.parent.mkdir()
    shutil.copy(PROGRAM, python)
    code = "import socket; print(socket.getaddrinfo('127.0.0.1', 1)[0][4], 'ä'.encode('cp1252'))"
    result = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("('127.0.0.1', 1) b'\\xe4'\n", "")


def test_child_interpreter_has_the_same_paths(installed: Path) -> None:
    """What runs as sys.executable finds our package without the environment's help."""
    python = installed / "lib" / "pyslurm-ng" / "bin" / "pyslurm-python"
    python.parent.mkdir()
    shutil.copy(PROGRAM, python)
    result = subprocess.run(
        [str(python), "-c", "import sys, pyslurm_ng; print(sys.executable, pyslurm_ng.__file__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    package = installed / "lib" / "pyslurm-ng" / "pyslurm_ng" / "__init__.py"
    assert result.stdout == f"{python} {package}\n", result.stderr


def test_version_is_the_same_everywhere() -> None:
    """PEP 440 has no spelling for 26.11.0-ng0.1, so pyproject.toml writes it with a plus."""
    from pyslurm_ng import __version__

    text = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{__version__.replace("-", "+")}"' in text
    assert sys.version_info >= (3, 10)


def test_a_changed_source_replaces_the_pack(installed: Path) -> None:
    """A command comes from its pack only while its source gives the same pack."""
    trial = installed / "lib" / "pyslurm-ng" / "pyslurm_ng" / "cli" / "trial.py"
    write = "import sys; sys.path.insert(0, 'scripts'); import build_launcher as b; "
    write += f"from pathlib import Path; b.write_pack('trial', Path({str(trial.parents[1])!r}))"
    subprocess.run([sys.executable, "-c", write], cwd=ROOT, check=True)
    frozen = "import pyslurm_ng.cli.trial as t; print(t.__spec__.origin)"

    def ask(text: str) -> str:
        trial.write_text(f"def main(argv):\n    {text}\n    return 0\n")
        os.utime(trial, (1e9, 1e9))
        result = subprocess.run(
            [str(installed / "bin" / "trial")], capture_output=True, text=True, check=False
        )
        return result.stdout

    assert ask(f"{frozen}; print('another')").endswith("another\n")
    subprocess.run([sys.executable, "-c", write], cwd=ROOT, check=True)
    assert ask(f"{frozen}; print('another')") == "frozen\nanother\n"
    assert ask(f"{frozen}; print('changed again')").endswith("trial.py\nchanged again\n")


def test_the_commands_of_a_server_are_the_small_ones() -> None:
    """A small program that no server serves would only start a second one."""
    daily = runpy.run_path(str(ROOT / "scripts" / "build_launcher.py"))["DAILY"]
    source = (ROOT / "src" / "launcher" / "command_client.c").read_text()
    start = source.index("static int is_for_server")
    lists = source[start : source.index("int reads = 0", start)]
    assert sorted(re.findall(r'"(\w+)"', lists)) == sorted(daily)


def test_a_pack_has_the_packages_of_compiled_modules() -> None:
    """Otherwise each command looks for and reads a file of an empty package."""
    modules_of = runpy.run_path(str(ROOT / "scripts" / "build_launcher.py"))["modules_of"]
    names = set(modules_of("squeue", PACKAGE))
    assert {"pyslurm_ng", "pyslurm_ng.kernels", "pyslurm_ng.cli.squeue"} <= names
    assert "pyslurm_ng.kernels.records" not in names


def test_no_module_of_a_pack_asks_for_its_file() -> None:
    """A module that comes from a pack has no `__file__`; its package has a `__path__`."""
    launcher = runpy.run_path(str(ROOT / "scripts" / "build_launcher.py"))
    asking = {
        str(path.relative_to(PACKAGE))
        for command in launcher["COMMANDS"]
        for path in launcher["modules_of"](command, PACKAGE).values()
        if re.search(r"(?<!\.)\b__file__\b", path.read_text())
    }
    assert asking == set()

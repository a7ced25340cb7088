"""Build the native launcher and give it its names: build_launcher.py BIN [SBIN PYTHON_BIN].

With BIN alone (a virtual environment's bin) all names go there. With three directories, as
`make install` calls it, daemons go to SBIN and the interpreter for child processes to PYTHON_BIN.
Daily commands are a small program, which becomes the launcher of the same name in PYTHON_BIN, or in
libexec beside BIN, where no command server runs them. Does nothing where nothing has changed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import marshal
import os
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND_SOURCES = [ROOT / "src" / "launcher" / name for name in ("command.c", "command_client.c")]
SOURCES = sorted({*(ROOT / "src" / "launcher").glob("*.c")} - {*COMMAND_SOURCES})
HEADERS = sorted((ROOT / "src" / "launcher").glob("*.h"))
PAM_SOURCE = ROOT / "src" / "pam" / "pam_pyslurm_adopt.c"
PACKAGE = ROOT / "src" / "pyslurm_ng"
DAEMONS = {"slurmctld": "ctld", "slurmd": "d", "slurmdbd": "dbd", "slurmrestd": "web"}
MANAGEMENT = {"pyslurm-ng": "up"}
# Modules of cli that hold no command of their own have no `main`.
COMMANDS = (
    "sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag seff "
    "seff-array sh5util sinfo sprio squeue sreport srun sshare sstat strigger swait"
).split()

DAILY = (
    "sacct sacctmgr sbatch scancel scontrol sdiag seff sinfo sprio squeue sreport srun sshare sstat"
).split()
"""Commands that a command server may run; src/launcher/command_client.c has the same."""


# What an interpreter imports from files before it is ready; the rest it has inside already.
FROZEN = ("encodings", "encodings.aliases", "encodings.utf_8")


# A pack begins with these; src/launcher/launcher.c reads it.
PACK_MAGIC = b"psngpak1"
PACK_HEAD = struct.Struct("=8sII")
PACK_ENTRY = struct.Struct("=qqIIIIII")


def variable(name: str) -> str:
    """Return a build setting of this interpreter, or an empty string."""
    return str(sysconfig.get_config_var(name) or "")


def link_choices() -> Iterator[list[str]]:
    """Yield ways to link with Python, best first: a static library, then a shared one.

    The static one, at a fixed address, needs no relocation at start: 0.7 ms less for each command.
    """
    version = variable("LDVERSION") or variable("VERSION")
    libraries = (variable("LIBS") + " " + variable("SYSLIBS")).split()
    directories = [variable("LIBDIR")]
    if variable("MULTIARCH"):
        directories.append(f"{variable('LIBDIR')}/{variable('MULTIARCH')}")
    for directory in [variable("LIBPL"), *directories]:
        archive = Path(directory, f"libpython{version}.a")
        if archive.exists():
            # The extension modules look for Python's symbols in the program itself: all of them.
            whole = ["-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive"]
            rest = [*libraries, "-lm", "-ldl", "-lpthread", "-Wl,--export-dynamic"]
            more = ["-Wl,-Bstatic", "-lexpat", "-lz", "-Wl,-Bdynamic", "-lutil"]
            yield ["-no-pie", *whole, *more, *rest]
            yield ["-no-pie", *whole, "-lexpat", "-lz", "-lutil", *rest]
            yield ["-no-pie", *whole, *rest]
            yield [*whole, *rest]
    for directory in directories:
        if Path(directory, f"libpython{version}.so").exists():
            yield [f"-L{directory}", f"-Wl,-rpath,{directory}", f"-lpython{version}"]


def write_frozen(header: Path) -> None:
    """Write the modules of FROZEN as C arrays of marshalled code."""
    lines = []
    entries = []
    for module in FROZEN:
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin is not None, module
        source = Path(spec.origin).read_bytes()
        code = marshal.dumps(compile(source, f"<frozen {module}>", "exec", dont_inherit=True))
        name = module.replace(".", "_")
        numbers = ",".join(map(str, code))
        lines.append(f"static const unsigned char frozen_{name}[] = {{{numbers}}};")
        is_package = int(spec.submodule_search_locations is not None)
        entries.append(f'FROZEN("{module}", frozen_{name}, {is_package}), ')
    lines.append(f"#define FROZEN_MODULES {''.join(entries)}")
    header.write_text("\n".join(lines) + "\n")


def compile_launcher(target: Path) -> None:
    """Compile, trying each way to link until one gives a program that runs."""
    stdlib = sysconfig.get_path("stdlib")
    flags = [
        f'-DPYSLURM_STDLIB_DIR="{stdlib}"',
        f'-DPYSLURM_DYNLOAD_DIR="{variable("DESTSHARED") or stdlib + "/lib-dynload"}"',
        f'-DPYSLURM_PYTHON_PREFIX="{sys.base_prefix}"',
        f'-DPYSLURM_SOURCE_DIR="{PACKAGE.parent}"',
        f"-I{sysconfig.get_path('include')}",
        f"-I{sysconfig.get_path('platinclude')}",
    ]
    compiler = shlex.split(os.environ.get("CC") or "cc")  # such as "ccache gcc"
    stamp = target.with_suffix(".built-from")
    mark = hashlib.sha256(
        b"".join(
            source.read_bytes() for source in [*SOURCES, *COMMAND_SOURCES, *HEADERS, Path(__file__)]
        )
        + repr((flags, sys.version)).encode()
    ).hexdigest()
    small = command_program(target)
    if target.exists() and small.exists() and stamp.exists() and stamp.read_text() == mark:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    compile_command(compiler, small)
    write_frozen(target.parent / "frozen.h")
    flags.append(f"-I{target.parent}")
    complaints = []
    for choice in link_choices():
        sources = [str(source) for source in SOURCES]
        command = [*compiler, "-O2", "-Wall", "-s", *flags, *sources, "-o", str(target), *choice]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode == 0 and runs(target):
            stamp.write_text(mark)
            return
        complaints.append(built.stderr.strip() or "it was built but does not run")
    if not complaints:
        complaints = ["no libpython found: install the package libpython3-dev"]
    sys.exit("build_launcher: error: " + "\n".join(complaints))


def compile_pam_module(target: Path) -> None:
    """Compile PAM's module, linked with libpam if that is here; else it finds it at run time."""
    stamp = target.with_suffix(".so.built-from")
    mark = hashlib.sha256(PAM_SOURCE.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    if target.exists() and stamp.exists() and stamp.read_text() == mark:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    flags = ["-O2", "-Wall", "-s", "-shared", "-fPIC", "-fvisibility=hidden"]
    command = [*compiler, *flags, str(PAM_SOURCE), "-o", str(target)]
    complaint = ""
    for libraries in (["-l:libpam.so.0"], []):
        built = subprocess.run([*command, *libraries], capture_output=True, text=True, check=False)
        if built.returncode == 0:
            stamp.write_text(mark)
            return
        complaint = built.stderr.strip()
    sys.exit(f"build_launcher: error: {complaint}")


def command_program(launcher: Path) -> Path:
    """Return the program that daily commands are at first."""
    return launcher.with_name("pyslurm-command")


def compile_command(compiler: list[str], target: Path) -> None:
    """Compile it without libraries of its own, which take half its time, where the system can."""
    sources = [str(source) for source in COMMAND_SOURCES]
    for more in (["-static"], []):
        command = [*compiler, "-O2", "-Wall", "-s", *sources, "-o", str(target), *more]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode == 0:
            return
    sys.exit("build_launcher: error: " + built.stderr.strip())


def runs(target: Path) -> bool:
    """Return whether the new program, called as the interpreter, imports something."""
    trial = target.parent / "trial" / "bin" / "pyslurm-python"
    trial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target, trial)
    result = subprocess.run(
        [
            str(trial),
            "-c",
            "import socket, hashlib, ctypes, json, pyslurm_ng; print(6 * 7)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(trial.parent.parent)
    return result.stdout == "42\n"


def source_of(module: str, package: Path) -> Path | None:
    """Return the Python file of one of our modules; None when it has none."""
    place = package.parent.joinpath(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.exists():
            return path
    return None


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield what a module may import when it runs, inside of functions, too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from imports_of(node)


def modules_of(command: str, package: Path) -> dict[str, Path]:
    """Return the modules that a command may import, with their packages, by name."""
    found: dict[str, Path] = {}
    waiting = [f"{package.name}._run", f"{package.name}.cli.{module_name(command)}"]
    while waiting:
        module = waiting.pop()
        path = source_of(module, package)
        if module in found or not module.startswith(f"{package.name}"):
            continue
        if "." in module:
            # Also of a compiled module, whose own file is no part of the pack.
            waiting.append(module.rpartition(".")[0])
        if path is not None:
            found[module] = path
            waiting.extend(imports_of(ast.parse(path.read_bytes())))
    return dict(sorted(found.items()))


def without_docstrings(source: bytes) -> ast.Module:
    """Return a module's syntax tree without docstrings, which no command shows."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body[:1] = [] if node.body[1:] else [ast.copy_location(ast.Pass(), first)]
    return tree


def module_name(command: str) -> str:
    """Return the name of a command's module in `cli`."""
    return command.replace("-", "_")


def write_pack(command: str, package: Path) -> None:
    """Write all compiled modules that a command may import to one file, for the launcher."""
    modules = modules_of(command, package)
    entries, texts = [], b""
    base = PACK_HEAD.size + len(modules) * PACK_ENTRY.size
    for module, path in modules.items():
        relative = str(path.relative_to(package.parent))
        facts = path.stat()
        tree = without_docstrings(path.read_bytes())
        code = marshal.dumps(compile(tree, relative, "exec", dont_inherit=True))
        places = []
        for piece in (module.encode() + b"\0", relative.encode() + b"\0", code):
            places.append(base + len(texts))
            texts += piece
        is_package = int(path.name == "__init__.py")
        entries.append(
            PACK_ENTRY.pack(int(facts.st_mtime), facts.st_size, *places, len(code), is_package, 0)
        )
    head = PACK_HEAD.pack(PACK_MAGIC, sys.hexversion, len(modules))
    place = package / "__pycache__" / f"{command}.pack"
    place.parent.mkdir(exist_ok=True)
    fresh = place.with_suffix(".new")
    fresh.write_bytes(head + b"".join(entries) + texts)
    fresh.replace(place)


def give_name(program: Path, place: Path) -> None:
    """Make `place` this program: a hard link where possible, else a copy; replaced at once."""
    if place.exists() and place.stat().st_ino == program.stat().st_ino:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        os.link(program, fresh)
    except OSError:
        shutil.copy2(program, fresh)
    fresh.replace(place)


def main(arguments: list[str]) -> None:
    if len(arguments) not in (1, 3) or any(word.startswith("-") for word in arguments):
        sys.exit("usage: build_launcher.py BIN [SBIN PYTHON_BIN]")
    places = [Path(argument) for argument in arguments]
    bin_dir = places[0]
    sbin_dir, python_dir = (places[1], places[2]) if len(places) == 3 else (bin_dir, bin_dir)
    program = ROOT / "build" / "launcher" / "pyslurm-launcher"
    compile_launcher(program)
    small = command_program(program)
    if len(places) == 3:
        # Links into the build directory would let a later build change the installed programs.
        python_dir.mkdir(parents=True, exist_ok=True)
        copy = python_dir / "pyslurm-python"
        copy.unlink(missing_ok=True)
        shutil.copy2(program, copy)
        program = copy
        small_copy = python_dir / "pyslurm-command"
        small_copy.unlink(missing_ok=True)
        shutil.copy2(small, small_copy)
        small, launchers = small_copy, python_dir
    else:
        give_name(program, python_dir / "pyslurm-python")
        launchers = bin_dir.parent / "libexec"
    sources = PACKAGE if len(places) == 1 else python_dir.parent / PACKAGE.name
    for name in COMMANDS:
        if (PACKAGE / "cli" / f"{module_name(name)}.py").exists():
            if name in DAILY:
                give_name(program, launchers / name)
            give_name(small if name in DAILY else program, bin_dir / name)
            write_pack(name, sources)
    for name, package in MANAGEMENT.items():
        if (PACKAGE / package / "__main__.py").exists():
            give_name(program, bin_dir / name)
    for name, package in DAEMONS.items():
        if (PACKAGE / package / "__main__.py").exists():
            give_name(program, sbin_dir / name)
    # What commands start in the background; nobody calls it by hand.
    give_name(program, python_dir / "pyslurm-command-server")
    # What slurmd starts for each step; nobody calls it by hand, so it lies beside slurmd.
    if (PACKAGE / "d" / "stepd" / "template.py").exists():
        give_name(program, sbin_dir / "slurmstepd")
    # What PAM's module, or pam_exec, starts for each login.
    give_name(program, sbin_dir / "pam_pyslurm_adopt")
    module = ROOT / "build" / "launcher" / PAM_SOURCE.with_suffix(".so").name
    compile_pam_module(module)
    security = bin_dir.parent / "lib" / "security"
    security.mkdir(parents=True, exist_ok=True)
    fresh = security / f".{module.name}.new"
    shutil.copy2(module, fresh)
    fresh.replace(security / module.name)


if __name__ == "__main__":
    main(sys.argv[1:])

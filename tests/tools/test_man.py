"""Manual pages and the compatibility table say what the code's tables say."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyslurm_ng.cli.submit import options
from pyslurm_ng.conf.effects.effect import ACCEPTED, REFUSED, effect_of, words_of
from pyslurm_ng.conf.tables import keys
from pyslurm_ng.ctld import __main__ as ctld
from pyslurm_ng.d import __main__ as d
from pyslurm_ng.dbd import options as dbd

ROOT = Path(__file__).resolve().parents[2]
CLI = ROOT / "src" / "pyslurm_ng" / "cli"


def run_tool(name: str, target: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / name), str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return every page's text by file name."""
    directory = tmp_path_factory.mktemp("man")
    run_tool("generate_man.py", directory)
    return {path.name: path.read_text() for path in directory.glob("man*/*")}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    written = tmp_path_factory.mktemp("docs") / "compat.md"
    run_tool("generate_compat.py", written)
    return written.read_text().splitlines()


def plain(page: str) -> str:
    return page.replace("\\-", "-")


def test_each_command_has_a_page(pages: dict[str, str]) -> None:
    """A command without a page is not finished."""
    names = [path.stem for path in (ROOT / "tools" / "facts" / "commands").glob("*.toml")]
    expected = {f"{name}.1" for name in names if (CLI / f"{name}.py").exists()}
    assert len(expected) > 10
    assert expected | {"pyslurm-ng.1", "slurmctld.8", "slurmd.8", "slurmdbd.8"} <= pages.keys()


def test_each_source_has_a_page(pages: dict[str, str]) -> None:
    """A text that no page shows would never be read."""
    assert {path.stem for path in (ROOT / "man").glob("*.toml")} == pages.keys()


@pytest.mark.parametrize("usage", [ctld.USAGE, d.USAGE, dbd.USAGE])
def test_pages_of_daemons_have_all_their_options(pages: dict[str, str], usage: str) -> None:
    """What `slurmd -h` knows, the manual page knows."""
    page = plain(pages[f"{usage.split()[1]}.8"])
    options = re.findall(r"^  (-.*?)  ", usage, re.MULTILINE)
    assert len(options) > 5
    assert not [option for option in options if f"\\fB{option}\\fR" not in page]


def test_the_management_command_tells_of_all_its_verbs(pages: dict[str, str]) -> None:
    """The simulator is loaded on demand, and is one of them."""
    headings = set(re.findall(r"^\.SH (.*)$", pages["pyslurm-ng.1"], re.MULTILINE))
    assert {"UP", "DOWN", "STATUS", "SIM"} <= headings


def test_each_key_is_described(pages: dict[str, str]) -> None:
    page = plain(pages["slurm.conf.5"])
    for key in (*keys.PARAMETERS, *keys.NODE, *keys.PARTITION):
        assert f"\\fB{key.name}=\\fR" in page


def test_keys_without_effect_say_so(pages: dict[str, str]) -> None:
    page = plain(pages["slurm.conf.5"])
    for key in keys.PARAMETERS:
        entry = page.split(f"\\fB{key.name}=\\fR", 1)[1].split("\n.TP", 1)[0].split("\n.SH", 1)[0]
        kind = effect_of("slurm.conf", key.name).kind
        is_idle = kind == ACCEPTED and not words_of("slurm.conf", key)
        assert ("without effect" in entry) == is_idle or words_of("slurm.conf", key), key.name
        assert ("Refused" in entry) == (kind == REFUSED), key.name


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_are_good_roff(pages: dict[str, str]) -> None:
    """A stray dot or backslash swallows text without an error, so warnings count."""
    for name, page in pages.items():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8"],
            input=page,
            capture_output=True,
            text=True,
            check=True,
        )
        # Long words that cannot be broken at the margin are no fault of the page.
        complaints = [line for line in done.stderr.splitlines() if "cannot" not in line]
        assert not complaints, f"{name}: {complaints[:3]}"
        assert name.split(".")[0].upper() in done.stdout


def test_the_committed_table_is_the_generated_one(table: list[str]) -> None:
    """`make docs` after a change of what a row does."""
    committed = (ROOT / "docs" / "reference" / "compat.md").read_text()
    assert committed.splitlines() == table


def test_compatibility_of_keys_is_what_the_code_knows(table: list[str]) -> None:
    text = "\n".join(table).split("\n### slurm.conf\n", 1)[1].split("\n### ", 1)[0]
    effects = dict(re.findall(r"^\| `(\w+)` \| (\w+)", text, re.MULTILINE))
    for key in keys.PARAMETERS:
        assert effects[key.name] == effect_of("slurm.conf", key.name).kind, key.name


def _section(table: list[str], command: str) -> dict[str, str]:
    """Return what the table says of each option of a command, by long name."""
    text = "\n".join(table).split(f"\n### {command}\n", 1)[1].split("\n### ", 1)[0]
    rows = re.findall(r"^\| (?:`-\w`, )?`--([\w-]+)` \| ([^|]+) \|", text, re.MULTILINE)
    return dict(rows)


def test_options_refused_by_name_are_shown_as_refused(table: list[str]) -> None:
    """The table is what users decide by; an option that ends in an error is not `same`."""
    for command in ("sattach", "sbcast"):
        module = importlib.import_module(f"pyslurm_ng.cli.{command}")
        here = _section(table, command)
        assert module.REFUSED
        for name in set(module.REFUSED) & here.keys():
            assert here[name] == "refused", (command, name)


def test_recorded_options_are_not_promised(table: list[str]) -> None:
    """An option that only is stored must not look as if it were obeyed."""
    assert options.RECORDED
    here = _section(table, "sbatch")
    for name in options.RECORDED:
        named = "named, and " if name in options.NAMED else ""
        assert here[name] == f"accepted: {named}kept with the job and shown"
    assert here["time"].startswith("same")

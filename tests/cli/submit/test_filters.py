"""CliFilterPlugins in sbatch, salloc and srun, against what Slurm 22.05 did with the same."""

from __future__ import annotations

import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyslurm_ng.cli.command import read_conf
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options

_HOOKS = """
function slurm_cli_setup_defaults(options, early) SETUP end
function slurm_cli_pre_submit(options, offset) PRE end
function slurm_cli_post_submit(offset, job_id, step_id) POST end
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A slurm.conf that tests add a filter to."""
    path = tmp_path / "slurm.conf"
    path.write_text("ClusterName=here\nSlurmctldHost=h\n")
    monkeypatch.setenv("SLURM_CONF", str(path))
    return path


def name_filter(conf: Path, name: str) -> None:
    with conf.open("a") as file:
        file.write(f"CliFilterPlugins={name}\n")


def script(conf: Path, setup: str = "return 0", pre: str = "return 0", post: str = "") -> None:
    name_filter(conf, "cli_filter/lua")
    text = _HOOKS.replace("SETUP", setup).replace("PRE", pre).replace("POST", post)
    (conf.parent / "cli_filter.lua").write_text(text)


def read(*words: str, command: str = "sbatch") -> Options:
    """Return the options of a command line, as the command reads them."""
    options = Options(command)
    pairs, operands = options.split_words([*words])
    submission.begin(options, operands, read_conf, submission.CONF_KEYS)
    options.apply_all(pairs, COMMAND_LINE)
    options.finish()
    return options


def test_defaults_are_set_before_options(conf: Path) -> None:
    """What the user types goes before them."""
    script(conf, setup="options['time'] = '30' options.partition = 'long' return slurm.SUCCESS")
    assert read().request["time_limit_min"] == 30
    options = read("-t", "5")
    assert (options.request["time_limit_min"], options.request["partition"]) == (5, "long")


def test_a_script_sees_and_changes_what_is_submitted(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names and texts are those of Slurm's table, what was not given too."""
    names = "type time nodes hold exclusive job-name ntasks partition array bell"
    script(
        conf,
        pre=f"""for name in ("{names}"):gmatch("%S+") do
            slurm.log_info("%s=%s", name, tostring(options[name])) end
            slurm.log_info("%s %s", options.argv[1], options.argv[2])
            slurm.log_info("%s", slurm.json_cli_options(options))
            options.qos = "high" return 0""",
    )
    options = read("-H", "-t", "1-0", "-N", "2-3", "-J", "x", "job.sh", "a")
    assert options.request["qos"] == "high"
    assert capsys.readouterr().err.splitlines() == [
        f"sbatch: lua: {text}"
        for text in (
            "type=sbatch", "time=1-00:00:00", "nodes=2-3", "hold=set", "exclusive=unset",
            "job-name=x", "ntasks=1", "partition=nil", "array=nil", "bell=invalid-context",
            "job.sh a",
            '{"hold":"set","job-name":"x","nodes":"2-3","time":"1-00:00:00",'
            '"argv":["job.sh","a"]}',
        )
    ]  # fmt: skip


def test_what_a_filter_reads_it_may_write(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Resources have their kind before them, times are whole."""
    script(
        conf,
        pre="""slurm.log_info("%s %s", options.gres, options.begin)
            options.gres = options.gres options.begin = options.begin return 0""",
    )
    options = read("--gres=gpu:1,shard:2", "--begin=2030-01-01", "job.sh")
    said = "gres/gpu:1,gres/shard:2 2030-01-01T00:00:00"
    assert capsys.readouterr().err == f"sbatch: lua: {said}\n"
    assert options.request["gres"].count("gpu:1") == 1


def test_the_script_may_be_elsewhere(conf: Path, tmp_path: Path) -> None:
    """Where CliFilterParameters says; the one beside slurm.conf is not read then."""
    script(conf, setup="options.time = '30' return 0")
    (conf.parent / "cli_filter.lua").rename(tmp_path / "elsewhere.lua")
    with conf.open("a") as file:
        file.write(f"CliFilterParameters=cli_filter_lua_path={tmp_path}/elsewhere.lua\n")
    assert read().request["time_limit_min"] == 30


@pytest.mark.parametrize("hook", ["setup", "pre"])
def test_a_script_may_refuse(conf: Path, hook: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with its lines and Slurm's."""
    script(conf, **{hook: "slurm.log_error('no %s', 'way') return slurm.ERROR"})
    with pytest.raises(OptionError, match="cli_filter plugin terminated with error"):
        read()
    assert capsys.readouterr().err == "sbatch: error: lua: no way\n"


def test_a_wrong_value_is_told_and_left_out(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that does not exist is left out in silence."""
    script(conf, pre="options.time = 'abc' options.nosuch = 1 return 0")
    assert "time_limit_min" not in read().request
    assert capsys.readouterr().err == "sbatch: error: Invalid --time specification\n"


def test_an_error_ends_the_command(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slurm goes on without what the script would have decided; see ADR 0081."""
    script(conf, pre="error('boom')")
    with pytest.raises(OptionError, match="terminated"):
        read()
    assert "cli_filter.lua:3: boom" in capsys.readouterr().err


def test_a_script_that_is_missing_ends_the_command(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name."""
    name_filter(conf, "lua")
    with pytest.raises(OptionError, match="terminated"):
        read()
    path = conf.parent / "cli_filter.lua"
    said = f"sbatch: error: cli_filter/lua: Unable to stat {path}: No such file or directory\n"
    assert capsys.readouterr().err == said


def test_values_are_kept_between_hooks(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """cli_store and cli_retrieve; the numbers of a job come last."""
    script(
        conf,
        pre="slurm.cli_store(offset, 'kept') return 0",
        post="slurm.log_info('%s %d %d', slurm.cli_retrieve(offset), job_id, step_id)",
    )
    options = read()
    assert options.filters is not None
    options.filters.post_submit(7)
    assert capsys.readouterr().err == "sbatch: lua: kept 7 4294967294\n"


def test_a_filter_in_python(conf: Path) -> None:
    """Functions that are not there are not called."""
    name_filter(conf, "python")
    (conf.parent / "cli_filter.py").write_text(
        "def pre_submit(options, offset):\n"
        "    if options.get('type') == 'salloc':\n"
        "        return -1\n"
        "    options.set('comment', f'component {offset}')\n"
    )
    assert read().request["comment"] == "component 0"
    with pytest.raises(OptionError):
        read(command="salloc")


@pytest.mark.parametrize(
    ("line", "partition"),
    [
        ("partition=long", "long"),
        (" partition = long # why", "long"),
        ("here:partition=long", "long"),
        ("*:partition=long", "long"),
        ("sbatch:here:partition=long", "long"),
        ("*:*:partition=long", "long"),
        ("salloc:here:partition=long", None),
        ("sbatch:other:partition=long", None),
        ("sbatch:partition=long", None),
        ("--partition=long", None),
    ],
)
def test_defaults_of_the_user(
    conf: Path, monkeypatch: pytest.MonkeyPatch, line: str, partition: str | None
) -> None:
    """One word before the option is a cluster, two are a command and a cluster."""
    name_filter(conf, "user_defaults")
    (conf.parent / ".slurm").mkdir()
    (conf.parent / ".slurm" / "defaults").write_text(f"# mine\n{line}\nhold\n")
    home = SimpleNamespace(pw_dir=str(conf.parent))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: home)
    options = read()
    assert options.request.get("partition") == partition
    assert "hold" in options.given


def test_commands_import_no_filter_where_none_is_named(conf: Path) -> None:
    """Start-up is part of their interface."""
    assert read().filters is None

"""The command `pyslurm-ng`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from pyslurm_ng import __version__
from pyslurm_ng.up import cluster, files, host_names, ports, programs, users, web
from pyslurm_ng.up.layout import BadRequest, Layout
from pyslurm_ng.up.slurm_user import choose_user

DEFAULT_DIRECTORY = "pyslurm-ng-cluster"
DIRECTORY_OPTION = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: os.environ.get("PYSLURM_NG_DIR", DEFAULT_DIRECTORY),
    show_default=f"$PYSLURM_NG_DIR or ./{DEFAULT_DIRECTORY}",
    help="Directory that holds everything of the cluster.",
)


def host_cpus() -> int:
    """Return how many CPUs this host has."""
    return os.cpu_count() or 1


def host_memory_mib() -> int:
    """Return how much memory this host has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def layout_of(directory: Path) -> Layout:
    """Return the layout; refuse a path that configuration files cannot hold."""
    path = directory.absolute()
    if re.search(r"[\s#\"'\\%=,\[\]]", str(path)):
        raise BadRequest(
            f"--dir {path}: blanks, quotes and the characters # % = , [ ] are not allowed"
        )
    return Layout(path)


def lines_of(option: str, path: Path | None, nodes: int = 0) -> str:
    """Return the lines to add to a configuration file, or refuse a file that is not text.

    `nodes` are those of a cluster whose slurm.conf it is.
    """
    if path is None:
        return ""
    try:
        lines = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadRequest(f"{option} {path}: not a text file") from None
    files.refuse_own_keys(option, lines)
    if nodes:
        files.refuse_nodes(lines, nodes)
    return lines


class Commands(click.Group):
    """The verbs; the simulator and reports are imported only when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names for --help."""
        return sorted([*super().list_commands(ctx), "report", "sim"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb by name."""
        if cmd_name == "report":
            from pyslurm_ng.report.command import report

            return report
        if cmd_name == "sim":
            from pyslurm_ng.sim.command import sim

            return sim
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, "-V", "--version", message="pyslurm-ng %(version)s")
def commands() -> None:
    """Run pyslurm-ng clusters on this host."""


@commands.command()
@click.option(
    "--nodes",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="Number of node daemons; each acts as a separate host.",
)
@click.option(
    "--cpus",
    type=click.IntRange(1, 4096),
    default=host_cpus,
    show_default="this host's",
    help="CPUs of each node.",
)
@click.option(
    "--sockets",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Sockets of each node, which share its CPUs and GPUs evenly.",
)
@click.option(
    "--memory",
    "memory_mib",
    type=click.IntRange(1, 2**31),
    default=None,
    show_default="an equal share of this host's",
    help="Memory of each node in MiB.",
)
@click.option(
    "--gpus",
    type=click.IntRange(0, 256),
    default=0,
    show_default=True,
    help="Pretended GPUs of each node.",
)
@click.option(
    "--shards",
    type=click.IntRange(0, 1024),
    default=0,
    show_default=True,
    help="Parts of each GPU that jobs may have, as gres/shard.",
)
@click.option(
    "--database",
    default="",
    metavar="URL",
    help="sqlite:///FILE or mysql://USER:PASSWORD@HOST:PORT/NAME; "
    "without it SQLite in the cluster's directory.",
)
@click.option(
    "--conf",
    "extra",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with lines to add to slurm.conf; they take precedence.",
)
@click.option(
    "--dbd-conf",
    "extra_dbd",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with lines to add to slurmdbd.conf; they take precedence.",
)
@click.option("--cluster-name", default="cluster", show_default=True, help="ClusterName.")
@click.option(
    "--slurm-user",
    default="",
    metavar="NAME",
    show_default="slurm where root starts the cluster and that user exists, else the caller",
    help="SlurmUser: slurmctld and slurmdbd run as this user.",
)
@click.option(
    "--namespaces/--no-namespaces",
    default=True,
    show_default=True,
    help="Give each node a host name of its own that resolves in jobs, where the kernel allows it.",
)
@click.option(
    "--web/--no-web",
    "has_web",
    default=True,
    show_default=True,
    help="Start slurmrestd with its pages on this host, where its libraries are installed.",
)
@click.option(
    "--port",
    "first_port",
    type=click.IntRange(ports.LEAST_CHOSEN, ports.GREATEST),
    default=None,
    show_default="any that are free",
    help="First of the ports: slurmctld's, then slurmdbd's, then one of each node, then "
    "slurmrestd's. The others also listen 10000 above theirs.",
)
@click.option(
    "--users",
    "wanted_users",
    default="",
    metavar="NAME,...",
    show_default="all where root starts the cluster, else the caller",
    help=f"Users who get the account `{users.ACCOUNT}` if they have none; `all` is every user of "
    "this host who may log in, `none` nobody.",
)
@DIRECTORY_OPTION
def up(
    nodes: int,
    cpus: int,
    sockets: int,
    memory_mib: int | None,
    gpus: int,
    shards: int,
    database: str,
    extra: Path | None,
    extra_dbd: Path | None,
    cluster_name: str,
    slurm_user: str,
    namespaces: bool,
    has_web: bool,
    first_port: int | None,
    wanted_users: str,
    directory: Path,
) -> None:
    """Start a cluster and return when its nodes take jobs."""
    layout = layout_of(directory)
    slurm_user, remark = choose_user(slurm_user, layout)
    if remark:
        click.echo(f"pyslurm-ng: {remark}", err=True)
    why_not = host_names.why_not() if namespaces else ""
    if why_not:
        click.echo(
            "pyslurm-ng: nodes share the name of this host, and n1 and the like do not resolve: "
            f"{why_not}",
            err=True,
        )
    no_web = web.why_not() if has_web else ""
    if no_web:
        click.echo(f"pyslurm-ng: no pages and no REST: {no_web}", err=True)
    request = files.Request(
        nodes=nodes,
        cpus=cpus,
        memory_mib=memory_mib or max(1, host_memory_mib() // nodes),
        gpus=gpus,
        shards=shards,
        database=database,
        extra_lines=lines_of("--conf", extra, nodes),
        extra_dbd_lines=lines_of("--dbd-conf", extra_dbd),
        has_web=has_web and not no_web,
        cluster_name=cluster_name,
        sockets=sockets,
        slurm_user=slurm_user,
        host_names=namespaces and not why_not,
        first_port=first_port or 0,
        users=tuple(users.chosen(wanted_users, os.geteuid())),
    )
    if shards and not gpus:
        raise click.UsageError("--shards are parts of GPUs: say with --gpus how many each node has")
    if cpus % sockets:
        raise click.UsageError(f"{cpus} CPUs cannot be shared evenly by {sockets} sockets")
    # One line for each daemon, then the nodes.
    with click.progressbar(
        length=nodes + 3 + request.has_web,
        label="starting",
        file=sys.stderr,
        item_show_func=lambda step: step,
    ) as bar:
        why_not = cluster.up(request, layout, lambda line: bar.update(1, line))
    if why_not:
        click.echo(f"pyslurm-ng: no pages and no REST: {why_not}", err=True)
    click.echo(f"The cluster is up. To use it:\n  . {layout.env_file}")
    if where := cluster.pages_of(layout):
        link = cluster.login_of(layout)
        way = f"log in once with\n  {link}" if link else "log in with what this prints:"
        click.echo(f"Pages are at {where}; {way}")
        click.echo("  scontrol token" if not link else "and later with what scontrol token prints")


@commands.command()
@DIRECTORY_OPTION
def down(directory: Path) -> None:
    """Stop the cluster with all its jobs; its state and accounting stay."""
    layout = layout_of(directory)
    if not layout.slurm_conf.exists():
        raise cluster.NotPossible(
            f"there is no cluster in {layout.directory}; --dir names another directory"
        )
    cluster.down(layout, click.echo)


@commands.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--from",
    "source",
    required=True,
    metavar="FILE|-",
    help="The lines; `-` is stdin.",
)
@click.option(
    "--commands",
    "are_commands",
    is_flag=True,
    help="Each line is a command of the shell, as with --wrap of sbatch.",
)
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SBATCH]")
def submit(source: str, are_commands: bool, sbatch_options: tuple[str, ...]) -> None:
    """Submit a job for each line of a file, and print its id, in the order of the lines.

    A line has what sbatch takes: options, a script, its arguments. Or it is a JSON object with
    `script` (a path), `text` (a script) or `wrap` (a command), `arguments`, and options of sbatch
    by their long names. Options beside --from are for all lines. A line that is refused is told
    on stderr, has `-` for an id, and makes the exit code 1.
    """
    from pyslurm_ng.cli import submit_lines

    sys.exit(submit_lines.main(source, list(sbatch_options), are_commands))


@commands.command()
@DIRECTORY_OPTION
def status(directory: Path) -> None:
    """Show daemons and nodes; the exit code is 1 unless all of them are well."""
    layout = layout_of(directory)
    lines, is_well = cluster.status(layout)
    for line in lines:
        click.echo(line)
    if link := cluster.login_of(layout):
        click.echo(f"log in to the pages once: {link}")
    sys.exit(0 if is_well else 1)


def main(argv: list[str]) -> int:
    """Run `pyslurm-ng`; errors are one line, with the ends of logs below it where they help."""
    try:
        commands.main(args=argv or ["--help"], prog_name="pyslurm-ng", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        print("pyslurm-ng: error: interrupted", file=sys.stderr)
        return 130
    except click.ClickException as problem:
        print(f"pyslurm-ng: error: {problem.format_message()}", file=sys.stderr)
        return 2
    except (
        cluster.NotPossible,
        BadRequest,
        ports.NoPorts,
        programs.StartFailed,
    ) as problem:
        print(f"pyslurm-ng: error: {problem}", file=sys.stderr)
        return 1
    except OSError as problem:
        text = f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
        print(f"pyslurm-ng: error: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

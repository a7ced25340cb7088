"""Options that hold a name: account, nodes, files, directory, user and group."""

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_values import invalid, no_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState


def account(options: "OptionState", name: str, value: str) -> None:
    """Read `--account`: accounts are lower case everywhere, and an empty name is none of them."""
    options.request["account"] = value.lower() or no_name()


def node_list(options: "OptionState", name: str, value: str) -> None:
    """Read `--nodelist` or `--exclude`: names, or with a slash the file that has them."""
    if "/" in value:
        value = _names_in(name, value)
    if name == "exclude":
        options.request["exclude"] = folded(value) if "," in value else value
    else:
        options.request["node_list"] = value


def folded(names: str) -> str:
    """Return a list of nodes as Slurm shows it; a wrong list, refused later, stays as it is."""
    from pyslurm_ng.base.hostlist import HostlistError, expand_unique, fold_sorted

    try:
        return fold_sorted(expand_unique(names))
    except HostlistError:
        return names


def node_file(options: "OptionState", name: str, value: str) -> None:
    """Read `--nodefile`."""
    if not value:
        raise OptionError(f"Invalid --{name} node file")
    names = _names_in(name, value)
    if not names:
        raise OptionError(f"Hostlist is empty!\nInvalid --{name} node file")
    options.request["node_list"] = names


def _names_in(name: str, path: str) -> str:
    """Return the names in a file of nodes.

    Raises:
        OptionError: the file cannot be read, in Slurm's words.
    """
    from pyslurm_ng.base.input_files import read_whole

    try:
        with open(path) as stream:
            return ",".join(read_whole(stream).split())
    except OSError as problem:
        text = f"slurm_allocate_resources error opening file {path}, {problem.strerror}"
        raise OptionError(f"{text}\nInvalid --{name} node file") from None
    except UnicodeDecodeError:
        raise OptionError(f"--{name}: {path} is not a text file", 1) from None


def burst_buffer_file(options: "OptionState", name: str, value: str) -> None:
    """Read `--bbf`: the file's content counts as `--bb`."""
    from pyslurm_ng.base.input_files import TooLong, read_whole

    try:
        with open(value) as stream:
            content = read_whole(stream).rstrip("\n")
    except (OSError, UnicodeDecodeError) as problem:
        why = f": {problem.strerror}" if isinstance(problem, TooLong) else ""
        raise OptionError(f"Invalid --bbf specification{why}", 1) from None
    if not content:
        raise OptionError("Invalid --bbf specification", 1)
    options.request["burst_buffer"] = content


def profile(options: "OptionState", name: str, value: str) -> None:
    """Read `--profile`, the series to collect."""
    from pyslurm_ng.cli.submit.option_checks import series

    options.request["profile"] = series(value)


def delay_boot(options: "OptionState", name: str, value: str) -> None:
    """Read `--delay-boot`, in minutes."""
    from pyslurm_ng.base import units

    try:
        seconds = units.parse_time_limit_s(value)
    except units.UnitError:
        raise invalid(name) from None
    options.request["delay_boot_min"] = -(-seconds // 60)


def cpu_frequency(options: "OptionState", name: str, value: str) -> None:
    """Read `--cpu-freq`, which the environment of the tasks repeats."""
    from pyslurm_ng.cli.submit.option_checks import cpu_frequency as read

    options.settings[name] = read(value)


def gpu_frequency(options: "OptionState", name: str, value: str) -> None:
    """Read `--gpu-freq`."""
    from pyslurm_ng.cli.submit.option_checks import check_gpu_frequency

    check_gpu_frequency(value)
    options.request["tres_freq"] = f"gpu:{value}"


def directory(options: "OptionState", name: str, value: str) -> None:
    """Read `--chdir`."""
    from pyslurm_ng.cli.file_names import current_directory

    options.request["work_dir"] = (
        value if value.startswith("/") else f"{current_directory()}/{value}"
    )


def cluster(options: "OptionState", name: str, value: str) -> None:
    """Read `--clusters`; the names are compared with ClusterName when slurm.conf has been read."""
    options.settings["clusters"] = value


def user(options: "OptionState", name: str, value: str) -> None:
    """Read `--uid`: root submits for another user."""
    from posix import getuid
    from pwd import getpwnam, getpwuid

    if getuid() != 0:
        raise OptionError("--uid only permitted by root user")
    try:
        entry = getpwuid(int(value)) if value.isdecimal() else getpwnam(value)
    except KeyError:
        raise invalid(name) from None
    options.settings["uid"] = str(entry.pw_uid)


def group(options: "OptionState", name: str, value: str) -> None:
    """Read `--gid`."""
    from grp import getgrgid, getgrnam
    from posix import getuid

    if getuid() != 0:
        raise OptionError("--gid only permitted by root user")
    try:
        entry = getgrgid(int(value)) if value.isdecimal() else getgrnam(value)
    except KeyError:
        raise invalid(name) from None
    options.settings["gid"] = str(entry.gr_gid)

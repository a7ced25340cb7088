"""srun over components: `--het-group=0,2`, and programs with `:` between them.

Each component has its own step, and its own process runs it. The processes create their steps,
report what these have, and launch when all are known: ranks and nodes are counted through all
components.
"""

import os

from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.cli.command import Table, say
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step.whole_step import WholeStep, wholes
from pyslurm_ng.cli.submit.het_options import MOST_COMPONENTS, PASSED_ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    from pyslurm_ng.cli.step.het_exchange import ComponentExchange
    from pyslurm_ng.wire.client import Client

    Pairs: TypeAlias = list[tuple[str, str | None]]

_OPTIONS = ("het-group", "pack-group")
_JOB_FIELDS = ["job_id", "het_job_id", "het_offset", "nodes", "node_count"]
_MARKS = ("_HET_GROUP_", "_PACK_GROUP_")
_SHARING = frozenset(("cpus-per-task", "exact", "exclusive", "jobid", "overlap"))
_FORWARDED = (1, 2, 3, 15)
_FIELD_BYTES = 8


class Component:
    """One step to run: its words, its component of the job, and options of those before it."""

    __slots__ = ("group", "inherited", "words")

    def __init__(self, words: "list[str]", group: int, inherited: "Pairs") -> None:
        self.words = words
        self.group = group
        self.inherited = inherited


def parts(argv: "list[str]") -> "list[list[str]]":
    """Return the words of each command between the colons."""
    commands: list[list[str]] = [[]]
    for word in argv:
        if word == ":":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def with_commands(
    argv: "list[str]", split: "Callable[[list[str]], tuple[Pairs, list[str]]]"
) -> "list[str]":
    """Return the line with a command in each part: a part without one runs the next part's.

    Args:
        split: returns a part's options and its command.
    """
    pairs: list[list[str]] = []
    following: list[str] = []
    for words in reversed(parts(argv)):
        own = split(words)[1]
        following = own or following
        pairs.insert(0, words if own else words + following)
    whole = pairs[0]
    for words in pairs[1:]:
        whole = [*whole, ":", *words]
    return whole


def without_job(argv: "list[str]") -> "list[str]":
    """Return the line without --jobid: variables name the components instead."""
    words_left: list[str] = []
    is_value = False
    for word in argv:
        if is_value:
            is_value = False
        elif word in ("--jobid", "--jobi", "--job"):
            is_value = True
        elif not word.startswith(("--jobid=", "--jobi=", "--job=")):
            words_left.append(word)
    return words_left


def components(
    argv: "list[str]", split: "Callable[[list[str]], Pairs]", environment: "Mapping[str, str]"
) -> "list[Component]":
    """Return the steps to run.

    Args:
        split: finds the options among a command's words.

    Raises:
        OptionError: groups that the job does not have, or one of them twice.
    """
    commands = parts(argv)
    size_text = environment.get("SLURM_HET_SIZE", "")
    last = int(size_text) - 1 if size_text.isdecimal() else 0
    made: list[Component] = []
    inherited: Pairs = []
    for index, words in enumerate(commands):
        pairs = split(words)
        text = next((value for name, value in reversed(pairs) if name in _OPTIONS), None)
        # Without a heterogeneous job all programs run in the one there is.
        default = [index if size_text and len(commands) > 1 else 0]
        for group in (
            default if text is None else _chosen_groups(text, size_text, last, environment)
        ):
            if group > last:
                raise OptionError(
                    f"Attempt to run a job step with het group value of {group}, but the job "
                    f"allocation has maximum value of {last}",
                    1,
                )
            made.append(Component(words, group, inherited))
        inherited = inherited + [pair for pair in pairs if pair[0] in PASSED_ON]
    if not size_text and len(made) > 1:
        _check_nodes([split(step.words) for step in made], environment)
    groups = [step.group for step in made]
    if size_text and len(set(groups)) < len(groups):
        raise OptionError("Duplicate het groups in single srun not supported", 1, "fatal: ")
    return sorted(made, key=lambda step: step.group)  # ranks count through the components


def _check_nodes(components: "list[Pairs]", environment: "Mapping[str, str]") -> None:
    """Refuse steps that would wait for one another for ever: in a job, each has nodes of its own.

    Those that say how they share nodes are left to the controller.

    Raises:
        OptionError: they want more nodes together than the job has.
    """
    nodes_text = environment.get("SLURM_JOB_NUM_NODES", "")
    if "SLURM_JOB_ID" not in environment or not nodes_text.isdecimal():
        return
    if any(f"SLURM_{name}" in environment for name in ("EXACT", "OVERLAP")):
        return
    job_nodes, taken = int(nodes_text), 0
    for pairs in components:
        values = dict(pairs)
        if not _SHARING.isdisjoint(values):
            return
        least = (values.get("nodes") or "").partition("-")[0] or values.get("ntasks") or nodes_text
        node_count = min(int(least), job_nodes) if least.isdecimal() else 1
        if taken + node_count > job_nodes:
            raise OptionError(
                f"Allocation failure of {node_count} nodes: job size of {job_nodes}, already "
                f"allocated {taken} nodes to previous components.",
                1,
            )
        taken += node_count


def _chosen_groups(
    text: str, size_text: str, last: int, environment: "Mapping[str, str]"
) -> "list[int]":
    """Return the numbers of --het-group; in a job that is not heterogeneous there are none."""
    groups = parse_groups(text)
    if len(groups) == 1 and not size_text and "SLURM_JOB_ID" not in environment:
        return [0]  # it is about steps in a job: srun makes a job of its own all the same
    if len(groups) == 1 and groups[0] > last:
        raise OptionError(
            f"Requested het-group offset exceeds highest hetjob index ({groups[0]} > {last})", 1
        )
    if groups == [0] and not size_text and "SLURM_JOB_ID" in environment:
        text = "No directives to start application on any available hetjob components"
        raise OptionError(text, 1)
    return groups


def check_allowed(scheduler_parameters: str) -> None:
    """Refuse steps over several components if the site does not allow them.

    Raises:
        OptionError: SchedulerParameters has disable_hetjob_steps.
    """
    if "disable_hetjob_steps" in scheduler_parameters.lower().replace(" ", "").split(","):
        raise OptionError(
            "Job steps that span multiple components of a heterogeneous job are not currently "
            "supported",
            1,
        )


def parse_groups(text: str) -> "list[int]":
    """Return the numbers of `0,2-3` in order.

    Raises:
        OptionError: it is no list of numbers.
    """
    numbers: set[int] = set()
    for part in text.strip("[]").split(","):
        low, dash, high = part.partition("-")
        last = high if dash else low
        is_range = low.isdecimal() and last.isdecimal() and len(last) < 10
        if not is_range or not int(low) <= int(last) < MOST_COMPONENTS:
            raise OptionError(f"Invalid --het-group value: {text}", 1)
        numbers.update(range(int(low), int(last) + 1))
    return sorted(numbers)


def variables_of(client: "Client", job: str) -> "dict[str, str]":
    """Return the variables by which a job's components are found; none for another kind of job.

    Raises:
        SlurmError: no job has this id.
    """
    query = {"filter": {"jobs": [job], "all_states": True}, "flags": SHOW_ALL}
    reply = client.call("ShowJobs", query)
    rows = [row for row in Table(reply["fields"], reply["records"], _JOB_FIELDS).rows if row[1]]
    if not rows:
        return {}
    variables = {"SLURM_HET_SIZE": str(len(rows)), "SLURM_JOB_ID": str(rows[0][1])}
    for job_id, _, offset, nodes, count in rows:
        mark = f"_HET_GROUP_{offset}"
        variables[f"SLURM_JOB_ID{mark}"] = str(job_id)
        variables[f"SLURM_JOB_NODELIST{mark}"] = nodes
        variables[f"SLURM_JOB_NUM_NODES{mark}"] = str(count)
    return variables


def component_environment(environment: "Mapping[str, str]", group: int) -> "dict[str, str]":
    """Return the variables as they would be if the component were a separate job."""
    variables = dict(environment)
    own: dict[str, str] = {}
    for name, value in environment.items():
        for mark in _MARKS:
            plain, _, number = name.partition(mark)
            if number.isdecimal():
                if number == str(group):
                    own[plain] = value
                else:
                    variables.pop(plain, None)
    for name in own:
        variables.pop(name, None)
    variables.update(own)
    if "SLURM_JOB_ID" in own:
        variables["SLURM_JOBID"] = own["SLURM_JOB_ID"]
    if "SLURM_JOB_NODELIST" in own:
        variables["SLURM_NODELIST"] = own["SLURM_JOB_NODELIST"]
        variables["SLURM_NNODES"] = own.get("SLURM_JOB_NUM_NODES", "1")
    return variables


def become(group: int) -> None:
    """Let this process's variables be those of one component."""
    variables = component_environment(os.environ, group)
    for name in list(os.environ):
        if name not in variables:
            del os.environ[name]
    os.environ.update(variables)


class Meeting:
    """One component's end of the exchange about what all components have together.

    Attributes:
        secret: of the whole step, for PMIx.
    """

    def __init__(
        self, report_end: int, asked: int, hub: "socket | None" = None, secret: bytes = b""
    ) -> None:
        self.secret = secret
        self._told = report_end
        self._asked = asked
        self._hub = hub

    def exchange(self, first_node: int) -> "ComponentExchange":
        """Return what passes on the messages of this component's MPI libraries."""
        from pyslurm_ng.cli.step.het_exchange import ComponentExchange

        assert self._hub is not None
        return ComponentExchange(self._hub, first_node)

    def whole(self, own: WholeStep) -> "WholeStep | None":
        """Report what this component's step has; return what all have, and its place among them.

        Return None if another component could not go on.
        """
        self.tell(own)
        return self.hear()

    def tell(self, own: WholeStep) -> None:
        """Report what this component's step has."""
        _send(self._told, own.fields())

    def hear(self) -> "WholeStep | None":
        """Return what all have, when all have reported."""
        message = _receive(self._asked)
        return WholeStep(**message) if message else None


def _send(descriptor: int, fields: "dict[str, Any]") -> None:
    from msgpack import packb

    body = packb(fields)
    unsent = memoryview(len(body).to_bytes(_FIELD_BYTES, "little") + body)
    while unsent:
        unsent = unsent[os.write(descriptor, unsent) :]


def _receive(descriptor: int) -> "dict[str, Any]":
    """Return what a peer sends; an empty map if it sends nothing."""
    from msgpack import unpackb

    size = int.from_bytes(_read(descriptor, _FIELD_BYTES), "little")
    body = _read(descriptor, size)
    message: dict[str, Any] = unpackb(body) if size and len(body) == size else {}
    return message


def _read(descriptor: int, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = os.read(descriptor, size - len(content))
        if not more:
            break
        content += more
    return content


def run(steps: "list[Component]", run_one: "Callable[[Component, Meeting], int]") -> int:
    """Run all steps at once, each in its own process; return the worst exit code."""
    from pyslurm_ng.cli.step.het_exchange import pair, serve_components

    children: list[int] = []
    reads: list[int] = []
    writes: list[int] = []
    hubs: list[socket] = []
    secret = os.urandom(16)
    for index, step in enumerate(steps):
        counts, tell = os.pipe()
        answers, answer = os.pipe()
        hub, theirs = pair()
        child = os.fork()
        if not child:
            for descriptor in (counts, answer, *reads, *writes):
                os.close(descriptor)
            for other in (hub, *hubs):
                other.close()
            meeting = Meeting(tell, answers, theirs, secret)
            os._exit(_run_child(step, index, meeting, run_one))
        os.close(tell)
        os.close(answers)
        theirs.close()
        hubs.append(hub)
        children.append(child)
        reads.append(counts)
        writes.append(answer)
    _forward_signals(children)
    node_counts = _arrange(reads, writes)
    serve_components(hubs, node_counts)
    codes = []
    for child in children:
        _, status = os.waitpid(child, 0)
        codes.append(128 + (status & 0x7F) if status & 0x7F else status >> 8 & 0xFF)
    return max(codes)


def _run_child(
    step: Component, index: int, meeting: Meeting, run_one: "Callable[[Component, Meeting], int]"
) -> int:
    become(step.group)
    if index:
        # Input goes to the first component.
        empty = os.open("/dev/null", os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
    try:
        return run_one(step, meeting)
    except OSError as problem:
        say(f"srun: error: {problem.strerror}")
        return 1
    finally:
        import sys

        sys.stdout.flush()


def _arrange(reads: "list[int]", writes: "list[int]") -> "list[int]":
    """When all have their step, tell each component what all have and where its part begins.

    Return how many nodes each has.
    """
    parts = []
    for descriptor in reads:
        message = _receive(descriptor)
        os.close(descriptor)
        parts.append(WholeStep(**message) if message else None)
    present = [part for part in parts if part is not None]
    answers = wholes(present) if len(present) == len(parts) else []
    for index, descriptor in enumerate(writes):
        if answers:
            try:
                _send(descriptor, answers[index].fields())
            except BrokenPipeError:
                pass  # it has been interrupted; its exit code says so
        os.close(descriptor)
    return [len(part.nodes) if part is not None else 0 for part in parts]


def _forward_signals(children: "list[int]") -> None:
    """Pass on signals that only we get; Ctrl-C reaches all through the terminal."""
    import signal

    def forward(number: int, _frame: object) -> None:
        for child in children:
            try:
                os.kill(child, number)
            except ProcessLookupError:
                continue

    for number in _FORWARDED:
        is_shared = number == signal.SIGINT and os.isatty(0)
        signal.signal(number, signal.SIG_IGN if is_shared else forward)

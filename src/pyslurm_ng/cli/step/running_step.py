"""sattach's side of a step: its nodes, copies of its output, and input for its tasks."""

import os
import time
from _signal import SIG_DFL, SIGHUP, SIGINT, SIGTERM, signal  # type: ignore[import-not-found]

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.cli.command import fail, say
from pyslurm_ng.cli.node_clients import node_clients
from pyslurm_ng.cli.step.node_links import NodeLinks
from pyslurm_ng.cli.step.step_input import StepInput
from pyslurm_ng.cli.step.step_output import StepOutput
from pyslurm_ng.cli.step.streams import Labels, Sink, StepIo
from pyslurm_ng.cli.step.tasks import StepTasks
from pyslurm_ng.wire import step_io
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.step.link import Link
    from pyslurm_ng.wire.client import Client

_CONNECT_S = 20.0
_LAUNCH_S = 3.0
_AGAIN_S = 0.05


class Attachment:
    """One step as sattach sees it.

    Args:
        step: its fields, as ShowSteps returns them.
        verbose: how often -v was given.
        quiet: whether only errors are printed.
    """

    def __init__(
        self,
        conf: "dict[str, str]",
        client: "Client",
        step: "dict[str, Any]",
        *,
        verbose: int,
        quiet: bool,
    ) -> None:
        self._conf = conf
        self._step = step
        self._verbose = verbose
        self._quiet = quiet
        self._daemons = node_clients("sattach", conf, client, step["nodes"])

    def show_layout(self) -> None:
        """Print which tasks are on which node."""
        answers = sorted(self._ask(None), key=lambda answer: int(answer["node_index"]))
        nodes = [answer["node"] for answer in answers]
        count = sum(len(answer["tasks"]) for answer in answers)
        print(f"Job step layout:\n\t{count} tasks, {len(nodes)} nodes ({fold(nodes)})\n")
        for index, answer in enumerate(answers):
            tasks = "".join(f"{task} " for task in answer["tasks"])
            print(f"\tNode {index} ({answer['node']}), {len(answer['tasks'])} task(s): {tasks}")

    def _ask(self, route: "tuple[int, bytes] | None") -> "list[dict[str, Any]]":
        """Ask each node for the step's tasks there and, with a port and key, to connect to us.

        A step is listed before its tasks run, so nodes without any are asked again while it is
        young. Leaves with 1 if no node answers.
        """
        answers: list[dict[str, Any]] = []
        asked, problems = self._daemons, self._ask_once(self._daemons, route, answers)
        young_until = self._step["start_us"] / 1e6 + _LAUNCH_S
        while time.time() < young_until < time.time() + 2 * _LAUNCH_S:
            early = {node for node, problem in problems if _has_no_tasks(problem)}
            asked = [(node, daemon) for node, daemon in asked if node in early]
            if not asked:
                break
            time.sleep(_AGAIN_S)
            others = [(node, problem) for node, problem in problems if node not in early]
            problems = others + self._ask_once(asked, route, answers)
        for _, daemon in self._daemons:
            daemon.close()
        for node, refusal in problems:
            self._tell_problem(node, refusal)
        if not answers:
            raise SystemExit(1)
        return answers

    def _ask_once(
        self,
        daemons: "list[tuple[str, Client]]",
        route: "tuple[int, bytes] | None",
        answers: "list[dict[str, Any]]",
    ) -> "list[tuple[str, SlurmError]]":
        """Ask these nodes at once; add their answers and return those that have none, and why."""
        step = {"job_id": self._step["job_id"], "step_id": self._step["step_id"]}
        problems: list[tuple[str, SlurmError]] = []
        begun = []
        for node, daemon in daemons:
            fields: dict[str, Any] = dict(step)
            try:
                if route is not None:
                    host = daemon.local_host()
                    fields["route"] = {"host": host, "port": route[0], "key": route[1]}
                daemon.begin("AttachStep", fields)
            except SlurmError as problem:
                problems.append((node, problem))
                continue
            begun.append((node, daemon))
        for node, daemon in begun:
            try:
                answers.append(daemon.receive(daemon.timeout_s)[1])
            except SlurmError as problem:
                problems.append((node, problem))
        return problems

    def _tell_problem(self, node: str, problem: SlurmError) -> None:
        if not _has_no_tasks(problem):
            say(f"sattach: error: Node {node}: {problem.text}")
        elif not self._quiet:
            say(f"sattach: Node {node}: no tasks running")  # those of other nodes still run

    def run(self, *, out_task: int, err_task: int, in_task: int, labels: bool, pty: bool) -> int:
        """Serve until the step is over; return the greatest exit code of its tasks.

        `out_task`, `err_task` and `in_task` choose one task for each stream, -1 all tasks.
        """
        from pyslurm_ng.cli.step.link import port_range

        streams = StepIo(Sink(1), Sink(2))
        streams.out_task, streams.err_task, streams.in_task = out_task, err_task, in_task
        try:
            readers = _Reading(streams, len(self._daemons), port_range(self._conf))
        except OSError as problem:
            fail(f"sattach: error: {problem.strerror}")
        answers = self._ask((readers.links.port, readers.links.key))
        for answer in answers:
            if self._verbose > 1:
                say(f"sattach: debug:  Node {answer['node']}, {len(answer['tasks'])} tasks")
        if labels:
            streams.labels = Labels(self._step["tasks"])
        with _Terminal(raw=pty):
            return readers.run(answers, self._verbose)


def _has_no_tasks(problem: SlurmError) -> bool:
    """Return whether a node refused because no task of the step is there, before or after it."""
    from pyslurm_ng.base.error_numbers import Errno

    return problem.code == Errno.ESLURM_INVALID_JOB_ID


class _Reading:
    """The loop of sattach: nodes on one side, stdin and the outputs on the other."""

    def __init__(self, streams: StepIo, nodes: int, ports: "tuple[int, int]") -> None:
        self._streams = streams
        self._nodes = nodes
        self._is_broken = False
        self._loop = loop = PollLoop()
        self._output = StepOutput(loop, streams, quiet=False, command="sattach")
        self._code = 0
        self._input: StepInput | None = None
        self._verbose = 0
        self._tasks = StepTasks("", [], [])
        self.links = NodeLinks(
            loop, ports, nodes, on_frame=self._on_frame, on_lost=self._lost,
            on_all_here=self._all_here,
        )  # fmt: skip
        streams.out.on_broken = self._output_broke

    def run(self, answers: "list[dict[str, Any]]", verbose: int) -> int:
        """Serve until each node has said that the step is over, or our reader has gone."""
        self._verbose = verbose
        of_node: list[list[int]] = [[] for _ in range(self._nodes)]
        names = [""] * self._nodes
        for answer in answers:
            index = answer["node_index"]
            if 0 <= index < self._nodes:
                of_node[index], names[index] = answer["tasks"], answer["node"]
        self._tasks = StepTasks("", names, of_node)
        for index, name in enumerate(names):
            if not name:
                self.links.leave_out(index)
        task = self._streams.in_task
        self._input = StepInput(
            self._loop, self.links, 0, task, self._tasks.node_of.get(task, -1)
        )  # fmt: skip
        self._loop.later(_CONNECT_S, self._connect_timed_out, "connect")
        if self.links.is_complete:
            self._all_here()
        while not (self.links.all_done or self._is_broken):
            self._output.turn(self.links)
        self._output.finish()
        self.links.close()
        return self._code

    def _all_here(self) -> None:
        self._loop.cancel("connect")
        if self._input is not None:
            self._input.go_on()

    def _connect_timed_out(self) -> None:
        for node in self.links.missing():
            self._output.log(f"error: Node {self._tasks.nodes[node]} does not connect")
            self.links.leave_out(node)
        self.links.wait_no_longer()
        self._all_here()

    def _lost(self, link: "Link") -> None:
        self._output.log(f"error: Node failure on {self._tasks.nodes[link.node]}")
        self._code = max(self._code, 1)

    def _output_broke(self, problem: OSError) -> None:
        if not isinstance(problem, BrokenPipeError):
            self._output.log(f"error: Could not write standard output: {problem.strerror}")
        self._is_broken = True

    def _on_frame(self, link: "Link", kind: int, task: int, body: bytes) -> None:
        if kind in (step_io.STDOUT, step_io.STDERR):
            self._output.write(kind, task, body)
        elif kind == step_io.NOTICE:
            self._output.plain(body.decode("utf-8", "replace").rstrip("\n"))
        elif kind == step_io.CREDIT and self._input is not None:
            link.credit += sum(step_io.numbers(body))
            self._input.go_on()
        elif kind == step_io.EXIT and len(step_io.numbers(body)) == 2:
            self._ended(task, step_io.numbers(body)[0])

    def _ended(self, task: int, status: int) -> None:
        """Report the end of a task; only exit codes count for ours, as in Slurm."""
        if self._verbose:
            self._output.log(f"1 tasks finished (rc={status})")
        number = status & 0x7F
        if number:
            if self._verbose:
                self._output.log(f"task {task} killed by signal {number}")
        elif status >> 8:
            code = status >> 8 & 0xFF
            self._output.log(f"error: task {task} exited with exit code {code}")
            self._code = max(self._code, code)


class _Terminal:
    """The terminal without echo and line editing while sattach runs, if `raw`."""

    def __init__(self, *, raw: bool) -> None:
        self._raw = raw

    def __enter__(self) -> None:
        if not self._raw:
            return
        from pyslurm_ng.cli.step.terminal import RawTerminal

        self._terminal = RawTerminal()
        for number in (SIGHUP, SIGINT, SIGTERM):
            signal(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        if self._raw:
            self._terminal.restore()

    def _on_signal(self, number: int, frame: object) -> None:
        self._terminal.restore()
        signal(number, SIG_DFL)
        os.kill(os.getpid(), number)

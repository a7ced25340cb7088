"""Tasks of a step as srun sees them: where each runs, how each ended, and the lines about it."""

from _signal import strsignal  # type: ignore[import-not-found]  # `signal` loads enum

from pyslurm_ng.base.hostlist import fold_numbers

OUT_OF_MEMORY = 1
"""Bit of an EXIT frame's flags (wire.step_io.EXIT_OUT_OF_MEMORY)."""
OUT_OF_MEMORY_CODE = 1
STARTING, RUNNING, EXITED = 0, 1, 2
_CORE_DUMPED = 0x80


def tasks_text(ids: "list[int]") -> str:
    """Return `task 3` or `tasks 0-2`."""
    return f"task{'s' if len(ids) > 1 else ''} {fold_numbers(ids)}"


def exit_text(status: int, flags: int) -> str:
    """Return how a task ended, by its wait status."""
    if flags & OUT_OF_MEMORY:
        return "Out Of Memory"
    number = status & 0x7F
    if number:
        text = strsignal(number) or f"Unknown signal {number}"
        return f"{text} (core dumped)" if status & _CORE_DUMPED else text
    code = status >> 8 & 0xFF
    return f"Exited with exit code {code}" if code else "Completed"


def exit_code(status: int, flags: int) -> int:
    """Return the exit code of srun that a task's end causes."""
    if flags & OUT_OF_MEMORY:
        return OUT_OF_MEMORY_CODE
    number = status & 0x7F
    return 128 + number if number else status >> 8 & 0xFF


class StepTasks:
    """The state of every task of one step.

    `nodes` are the step's node names, `of_node` the task ids on each.
    """

    def __init__(self, step_name: str, nodes: "list[str]", of_node: "list[list[int]]") -> None:
        self.step_name = step_name
        self.first_rank = 0  # of a step beside those of other components
        self.nodes = nodes
        self.of_node = of_node
        self.node_of = {task: node for node, tasks in enumerate(of_node) for task in tasks}
        self.state = dict.fromkeys(sorted(self.node_of), STARTING)
        self.worst_status = 0
        self.code = 0
        self.exited_count = 0
        self.failed: set[int] = set()
        self.expects_signals = False  # srun's user ends the tasks
        self._unsaid: dict[tuple[int, int, int], list[int]] = {}

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return len(self.state)

    @property
    def all_exited(self) -> bool:
        """Whether every task has ended."""
        return self.exited_count == len(self.state)

    def started(self, node: int) -> None:
        """Note that the tasks of a node run."""
        for task in self.of_node[node]:
            if self.state[task] == STARTING:
                self.state[task] = RUNNING

    def exited(self, task: int, status: int, flags: int) -> bool:
        """Record the end of a task; return whether it was not known before."""
        if self.state.get(task, EXITED) == EXITED:
            return False
        self.state[task] = EXITED
        self.exited_count += 1
        if status or flags:
            self.failed.add(task)
        code = exit_code(status, flags)
        if code > self.code:
            self.code = code
            self.worst_status = status
        self._unsaid.setdefault((self.node_of[task], status, flags), []).append(task)
        return True

    def _text(self, ids: "list[int]") -> str:
        return tasks_text([self.first_rank + task for task in ids])

    def running_on(self, node: int) -> "list[int]":
        """Return the tasks of a node that have not ended."""
        return [task for task in self.of_node[node] if self.state[task] != EXITED]

    def end_lines(self, verbose: int) -> "list[str]":
        """Return a line for each group of tasks with the same end on one node, and forget them.

        A task without an error is reported only with -v.
        """
        unsaid, self._unsaid = self._unsaid, {}
        lines = []
        for (node, status, flags), tasks in unsaid.items():
            if verbose:
                plural = "s" if len(tasks) > 1 else ""
                lines.append(
                    f"Received task exit notification for {len(tasks)} task{plural} of "
                    f"{self.step_name} (status=0x{status:04x})."
                )
            text = f"{self.nodes[node]}: {self._text(tasks)}: {exit_text(status, flags)}"
            if status and self.expects_signals and status & 0x7F:
                lines += [text] if verbose else []
            elif status or flags:
                lines.append("error: " + text)
            elif verbose:
                lines.append(text)
        return lines

    def state_lines(self) -> "list[str]":
        """Return what the first Ctrl-C and --wait print: tasks by state."""
        by_words: dict[str, list[int]] = {"starting": [], "running": [], "exited": []}
        words = [*by_words]
        by_words["exited abnormally"] = []
        for task, state in self.state.items():
            failed = task in self.failed
            by_words["exited abnormally" if failed else words[state]].append(task)
        return [
            f"{self.step_name} {self._text(tasks)}: {text}"
            for text, tasks in by_words.items()
            if tasks
        ]

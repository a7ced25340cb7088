"""The steps of several components together, for the variables of their tasks."""

from pyslurm_ng.base.process_mapping import blocks_of, blocks_text, parse_blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from pyslurm_ng.base.process_mapping import Block


class WholeStep:
    """One component's step, or the steps of all in the order of components.

    nodes, tasks_per_node: of the step. job_nodes, cpus_per_node: of the allocations, as
        SLURM_JOB_NODELIST and SLURM_JOB_CPUS_PER_NODE have them.
    ranks_of_nodes: the component's tasks in blocks, as in PMI_process_mapping.
    first_rank, first_node: the component's first rank and node among all.
    """

    __slots__ = (
        "cpus_per_node",
        "first_node",
        "first_rank",
        "job_nodes",
        "nodes",
        "ranks_of_nodes",
        "tasks_per_node",
    )

    def __init__(
        self,
        nodes: "list[str]",
        tasks_per_node: "list[int]",
        job_nodes: str = "",
        cpus_per_node: str = "",
        ranks_of_nodes: str = "",
        first_rank: int = 0,
        first_node: int = 0,
    ) -> None:
        self.nodes = nodes
        self.tasks_per_node = tasks_per_node
        self.job_nodes = job_nodes
        self.cpus_per_node = cpus_per_node
        self.ranks_of_nodes = ranks_of_nodes
        self.first_rank = first_rank
        self.first_node = first_node

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return sum(self.tasks_per_node)

    def fields(self) -> "dict[str, Any]":
        """Return what a copy is made of."""
        return {name: getattr(self, name) for name in self.__slots__}

    def launch_fields(self) -> "dict[str, Any]":
        """Return the fields of a LaunchStep."""
        from pyslurm_ng.base.hostlist import expand, fold
        from pyslurm_ng.sched.cons_tres.layout import counts_text

        job_nodes = expand(self.job_nodes)
        return {
            "append": True,  # to files that tasks of other components write, too
            "first_rank": self.first_rank,
            "all_ranks": self.tasks,
            "first_node": self.first_node,
            "all_nodes": fold(self.nodes),
            "all_node_count": len(self.nodes),
            "all_tasks_per_node": counts_text(self.tasks_per_node),
            "all_job_nodes": fold(job_nodes),
            "all_job_node_count": len(job_nodes),
            "all_ranks_of_nodes": self.ranks_of_nodes,
            "all_cpus_per_node": counts_text(_counts(self.cpus_per_node)),
        }


def of_component(granted: "Mapping[str, Any]", environment: "Mapping[str, str]") -> WholeStep:
    """Return what one component has: its granted step and its allocation."""
    return WholeStep(
        list(granted["nodes"]),
        [len(tasks) for tasks in granted["tasks"]],
        environment.get("SLURM_JOB_NODELIST", ""),
        environment.get("SLURM_JOB_CPUS_PER_NODE", ""),
        blocks_text(blocks_of(granted["tasks"])),
    )


def wholes(parts: "list[WholeStep]") -> "list[WholeStep]":
    """Return for each component what all have together, and where it begins."""
    whole_steps = []
    first_rank = first_node = 0
    for part in parts:
        whole_steps.append(
            WholeStep(
                [node for part in parts for node in part.nodes],
                [count for part in parts for count in part.tasks_per_node],
                _joined(part.job_nodes for part in parts),
                _joined(part.cpus_per_node for part in parts),
                _joined_blocks(parts),
                first_rank,
                first_node,
            )
        )
        first_rank += part.tasks
        first_node += len(part.nodes)
    return whole_steps


def _joined_blocks(parts: "list[WholeStep]") -> str:
    """Return the blocks of all components, whose nodes follow each other."""
    blocks: list[Block] = []
    first_node = 0
    for part in parts:
        for first, nodes, per_node in parse_blocks(part.ranks_of_nodes):
            blocks.append((first_node + first, nodes, per_node))
        first_node += len(part.nodes)
    return blocks_text(blocks)


def _joined(texts: "Iterable[str]") -> str:
    return ",".join(filter(None, texts))


def _counts(text: str) -> "list[int]":
    """Return the counts of `2(x3),1`."""
    counts: list[int] = []
    for part in filter(None, text.split(",")):
        count, _, times = part.partition("(x")
        counts += [int(count)] * int(times.removesuffix(")") or 1)
    return counts

"""Which rank of an MPI program is on which node, in the text that PMI calls PMI_process_mapping.

`(vector,(0,2,4))` means: from node 0 on 2 nodes with 4 ranks each, in the order of ranks. Blocks
follow each other.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 1024
"""Of a value in PMI, with a zero at its end."""

Block = tuple[int, int, int]
"""The first node, how many nodes, and how many ranks each of them has."""


def blocks_of(tasks_of_node: "Sequence[Sequence[int]]", first_node: int = 0) -> "list[Block]":
    """Return the blocks of a step's tasks, whose ids are 0, 1, 2 ... over all nodes."""
    pairs = [(task, node) for node, tasks in enumerate(tasks_of_node) for task in tasks]
    runs: list[list[int]] = []  # node and count
    for _, node in sorted(pairs):
        if runs and runs[-1][0] == node:
            runs[-1][1] += 1
        else:
            runs.append([node, 1])
    blocks: list[Block] = []
    for node, count in runs:
        node += first_node
        if blocks:
            first, nodes, per_node = blocks[-1]
            if node == first + nodes and count == per_node:
                blocks[-1] = (first, nodes + 1, per_node)
                continue
        blocks.append((node, 1, count))
    return blocks


def blocks_text(blocks: "Sequence[Block]") -> str:
    """Return blocks in the form `(0,2,4),(2,1,1)`."""
    return ",".join("({},{},{})".format(*block) for block in blocks)


def mapping_text(blocks: "Sequence[Block]") -> str:
    """Return PMI_process_mapping, as Slurm writes it.

    A text that is too long for a value of PMI is cut where the same blocks follow again: readers
    begin anew with the first block while ranks are left, though not all of them do.
    """
    text = f"(vector,{blocks_text(blocks)})"
    if len(text) < MOST_BYTES:
        return text
    for period in range(1, len(blocks) // 2 + 1):
        if all(block == blocks[index % period] for index, block in enumerate(blocks)):
            return f"(vector,{blocks_text(blocks[:period])})"
    return text


def parse_blocks(text: str) -> "list[Block]":
    """Return the blocks of `(0,2,4),(2,1,1)`.

    Raises:
        ValueError: it is no such text.
    """
    blocks: list[Block] = []
    for part in text.strip("()").split("),(") if text else []:
        first, nodes, per_node = (int(number) for number in part.split(","))
        if first < 0 or nodes < 1 or per_node < 1:
            raise ValueError(f"({part}) is no block of ranks")
        blocks.append((first, nodes, per_node))
    return blocks


def ranks_of_nodes(blocks: "Sequence[Block]", node_count: int) -> "list[list[int]]":
    """Return the ranks on each node. Raises IndexError if a block names a node beyond the last."""
    ranks: list[list[int]] = [[] for _ in range(node_count)]
    rank = 0
    for first, nodes, per_node in blocks:
        for node in range(first, first + nodes):
            ranks[node].extend(range(rank, rank + per_node))
            rank += per_node
    return ranks

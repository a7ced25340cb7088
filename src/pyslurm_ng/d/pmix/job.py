"""What ranks may ask of their job without a word to anyone else: sizes, maps, each rank's place."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from pyslurm_ng.base.process_mapping import parse_blocks, ranks_of_nodes
from pyslurm_ng.d.pmix import records as c

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import MpiSpec


class JobInfo:
    """The infos of one namespace.

    Attributes:
        namespace: as Slurm names it, with the step's secret. A rank has to name it; a process of
            another user, which can connect and give any user as its own, does not know it.
        server: the namespace of the servers.
        ranks: of each node of the step.
        here: this node's place among them.
    """

    def __init__(
        self, library: ctypes.CDLL, spec: MpiSpec, node: str, node_index: int, directory: str
    ) -> None:
        self.namespace = f"slurm.pmix.{spec['job']}.{spec['secret']}".encode()
        self.server = f"slurm.pmix.{spec['job']}.server".encode()
        self.here = spec["first_node"] + node_index
        blocks = parse_blocks(spec["mapping"].removeprefix("(vector,").removesuffix(")"))
        self.ranks = ranks_of_nodes(_repeated(blocks, spec["ranks"]), len(spec["nodes"]))
        self._library = library
        self._spec = spec
        self._node = node
        self._directory = directory
        self._kept: list[object] = []  # what the infos point to

    @property
    def local(self) -> list[int]:
        """The ranks on this node."""
        return self.ranks[self.here]

    def node_of(self, rank: int) -> int:
        """Return the node of a rank, -1 if there is no such rank."""
        return next((node for node, ranks in enumerate(self.ranks) if rank in ranks), -1)

    def infos(self) -> ctypes.Array[c.Info]:
        """Return all; they live as long as this object."""
        spec, local = self._spec, self.local
        numbers = {
            "pmix.univ.size": spec["ranks"],
            "pmix.job.size": spec["ranks"],
            "pmix.max.size": spec["ranks"],
            "pmix.app.size": spec["ranks"],
            "pmix.job.napps": 1,
            "pmix.num.nodes": len(spec["nodes"]),
            "pmix.local.size": len(local),
            "pmix.node.size": len(local),
            "pmix.nodeid": self.here,
            "pmix.appnum": 0,
        }
        texts = {
            "pmix.jobid": spec["job"].encode(),
            "pmix.lpeers": ",".join(map(str, local)).encode(),
            "pmix.hname": self._node.encode(),
            "pmix.nlist": ",".join(spec["nodes"]).encode(),
            "pmix.anlmap": spec["mapping"].encode(),
            "pmix.rm.name": b"slurm",
            "pmix.tmpdir": self._directory.encode(),
            "pmix.nsdir": self._directory.encode(),
        }
        parts = [c.info(key, c.UINT32, number) for key, number in numbers.items()]
        parts += [c.info(key, c.STRING, text) for key, text in texts.items()]
        parts.append(c.info("pmix.lldr", c.RANK, local[0]))
        parts.append(c.info("pmix.nmap", c.STRING, self._regex(spec["nodes"], ",", "regex")))
        on_nodes = [",".join(map(str, ranks)) for ranks in self.ranks]
        parts.append(c.info("pmix.pmap", c.STRING, self._regex(on_nodes, ";", "ppn")))
        parts += self._places()
        made = c.infos(*parts)
        self._kept += [parts, made]
        return made

    def _regex(self, words: list[str], mark: str, kind: str) -> bytes:
        """Return a list in the library's own form. Raises OSError."""
        text = ctypes.c_char_p()
        make = getattr(self._library, f"PMIx_generate_{kind}")
        status = make(mark.join(words).encode(), ctypes.byref(text))
        if status or not text.value:
            raise OSError(f"PMIx_generate_{kind}: error {status}")
        return text.value

    def _places(self) -> list[c.Info]:
        """Return where each rank is."""
        places = []
        for node, ranks in enumerate(self.ranks):
            name = self._spec["nodes"][node].encode()
            for local_rank, rank in enumerate(ranks):
                parts = c.infos(
                    c.info("pmix.rank", c.RANK, rank),
                    c.info("pmix.appnum", c.UINT32, 0),
                    c.info("pmix.grank", c.RANK, rank),
                    c.info("pmix.apprank", c.RANK, rank),
                    c.info("pmix.lrank", c.UINT16, local_rank),
                    c.info("pmix.nrank", c.UINT16, local_rank),
                    c.info("pmix.nodeid", c.UINT32, node),
                    c.info("pmix.hname", c.STRING, name),
                )
                array = c.array_of(parts)
                self._kept += [parts, array]
                places.append(c.info("pmix.pdata", c.DATA_ARRAY, array))
        return places


def _repeated(blocks: list[tuple[int, int, int]], ranks: int) -> list[tuple[int, int, int]]:
    """Return the blocks as often as they are needed for all ranks."""
    each = sum(nodes * per_node for _, nodes, per_node in blocks)
    return blocks * (ranks // each)

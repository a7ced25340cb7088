"""A client of PMIx without MPI, run as a task: `python client.py RANKS WORD...`.

Each rank puts a value, all meet, each reads the values of all, first of its own node.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

from pyslurm_ng.base import libpmix
from pyslurm_ng.d.pmix import records as c

GLOBAL = 3


def check(name: str, status: int) -> None:
    if status:
        raise SystemExit(f"{name}: error {status}")


def get(library: ctypes.CDLL, space: bytes, rank: int, key: bytes) -> c.Value:
    value = ctypes.POINTER(c.Value)()
    who = c.Proc(space, rank)
    check(
        f"PMIx_Get of {key!r}",
        library.PMIx_Get(ctypes.byref(who), key, None, 0, ctypes.byref(value)),
    )
    return value[0]


def main(count: int, words: list[str]) -> None:
    library = libpmix.load()
    me = c.Proc()
    check("PMIx_Init", library.PMIx_Init(ctypes.byref(me), None, 0))
    if "sleep" in words:
        time.sleep(60)
    if f"exit:{me.rank}" in words:
        os._exit(3)
    if f"abort:{me.rank}" in words:
        library.PMIx_Abort(7, b"no", None, 0)
    value = c.info("mine", c.STRING, b"value %d" % me.rank).value
    check("PMIx_Put", library.PMIx_Put(GLOBAL, b"mine", ctypes.byref(value)))
    check("PMIx_Commit", library.PMIx_Commit())
    everyone = c.Proc(me.nspace, c.WILDCARD)
    collect = c.infos(c.info("pmix.collect", c.BOOL, "collect" in words))
    check("PMIx_Fence", library.PMIx_Fence(ctypes.byref(everyone), 1, collect, 1))
    for rank in range(count):
        text = get(library, me.nspace, rank, b"mine").data.string
        if text != b"value %d" % rank:
            raise SystemExit(f"rank {rank} has put {text!r}")
    size = get(library, me.nspace, c.WILDCARD, b"pmix.job.size").data.uint32
    node = get(library, me.nspace, me.rank, b"pmix.nodeid").data.uint32
    host = get(library, me.nspace, me.rank, b"pmix.hname").data.string
    # In one piece: with PYTHONUNBUFFERED, print writes the end of a line by itself.
    sys.stdout.write(f"rank {me.rank} of {size} on node {node} {(host or b'').decode()}\n")
    sys.stdout.flush()
    if "leave" not in words:  # as MPI_Finalize has it
        check("PMIx_Fence", library.PMIx_Fence(ctypes.byref(everyone), 1, None, 0))
    check("PMIx_Finalize", library.PMIx_Finalize(None, 0))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

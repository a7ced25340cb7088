"""What the library is told of a job, by a stand-in for the two functions that make its lists."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

from pyslurm_ng.d.pmix import records as c
from pyslurm_ng.d.pmix.job import JobInfo
from pyslurm_ng.d.spool.step_contract import MpiSpec

SPEC: MpiSpec = {
    "kind": "pmix", "job": "5.0", "world": "5.0", "ranks": 5, "first_rank": 0, "first_node": 1,
    "mapping": "(vector,(0,2,2),(2,1,1))", "nodes": ["n3", "n1", "n2"],
    "secret": "ab",
}  # fmt: skip


def library() -> Any:
    def make(text: bytes, made: Any) -> int:
        made._obj.value = b"list:" + text
        return c.SUCCESS

    return SimpleNamespace(PMIx_generate_regex=make, PMIx_generate_ppn=make)


def content(value: c.Value) -> object:
    if value.type == c.STRING:
        return value.data.string
    if value.type == c.DATA_ARRAY:
        array = value.data.array[0]
        return {
            part.key.decode(): content(part.value)
            for part in (c.Info * array.size).from_address(array.array)
        }
    return value.data.uint16 if value.type == c.UINT16 else value.data.uint32


def test_ranks_and_nodes_are_as_the_step_has_them() -> None:
    """The second component's first node: nodes count over all components."""
    job = JobInfo(library(), SPEC, "n2", 1, "/tmp/x")
    assert (job.namespace, job.here, job.local) == (b"slurm.pmix.5.0.ab", 2, [4])
    assert [job.node_of(rank) for rank in (0, 1, 2, 3, 4, 5)] == [0, 0, 1, 1, 2, -1]
    infos = job.infos()
    told = {info.key.decode(): content(info.value) for info in infos if info.key != b"pmix.pdata"}
    assert told["pmix.job.size"] == told["pmix.univ.size"] == 5
    assert told["pmix.local.size"] == 1 and told["pmix.lpeers"] == b"4"
    assert told["pmix.nmap"] == b"list:n3,n1,n2" and told["pmix.pmap"] == b"list:0,1;2,3;4"
    places = [content(info.value) for info in infos if info.key == b"pmix.pdata"]
    assert places[3] == {
        "pmix.rank": 3, "pmix.appnum": 0, "pmix.grank": 3, "pmix.apprank": 3, "pmix.lrank": 1,
        "pmix.nrank": 1, "pmix.nodeid": 1, "pmix.hname": b"n1",
    }  # fmt: skip


def test_a_mapping_that_was_cut_is_repeated() -> None:
    """As readers of PMI_process_mapping do."""
    spec: MpiSpec = {**SPEC, "ranks": 6, "mapping": "(vector,(0,3,1))"}
    assert JobInfo(library(), spec, "n1", 0, "/tmp/x").ranks == [[0, 3], [1, 4], [2, 5]]


def test_the_records_have_the_librarys_sizes() -> None:
    """As a compiler has them for versions 4 and 5 on 64 bits."""
    sizes = (c.Proc, c.Value, c.Info, c.Pdata, c.DataArray)
    assert [ctypes.sizeof(kind) for kind in sizes] == [260, 32, 552, 808, 24]
    assert (c.Info.value.offset, c.Pdata.value.offset) == (520, 776)

"""The functions that libpmix calls when it needs its host, in a thread of its own.

They only note what is asked, and return at once; the loop does it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from pyslurm_ng.d.pmix import records as c
from pyslurm_ng.wire import mpi_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.d.pmix.exchange import PmixExchange
    from pyslurm_ng.d.pmix.job import JobInfo


class HostFunctions:
    """The host of one namespace.

    Attributes:
        module: what PMIx_server_init takes; it has to live as long as the library is used.
    """

    def __init__(self, exchange: PmixExchange, job: JobInfo) -> None:
        self._exchange = exchange
        self._job = job
        self.module = self._module()

    def _module(self) -> c.Module:
        return c.Module(
            client_connected=c.Connected(self._connected),
            client_finalized=c.Connected(self._finalized),
            abort=c.Aborted(self._aborted),
            fence_nb=c.Fence(self._fence),
            direct_modex=c.Modex(self._modex),
            publish=c.Publish(self._publish),
            lookup=c.Lookup(self._lookup),
            unpublish=c.Unpublish(self._unpublish),
        )

    def _tell_rank(self, proc: Any, state: int, done: Any, context: int) -> int:
        rank = proc[0].rank

        def tell() -> None:
            self._exchange.send({"do": "rank", "rank": rank, "status": state})
            if done:
                done(c.SUCCESS, context)

        self._exchange.later(tell)
        return c.SUCCESS

    def _connected(self, proc: Any, _: object, done: Any, context: int) -> int:
        return self._tell_rank(proc, mpi_frames.BEGAN, done, context)

    def _finalized(self, proc: Any, _: object, done: Any, context: int) -> int:
        return self._tell_rank(proc, mpi_frames.FINISHED, done, context)

    def _aborted(
        self, proc: Any, _: object, status: int, text: bytes, procs: Any, count: int, done: Any,
        context: int,
    ) -> int:  # fmt: skip
        return self._tell_rank(proc, mpi_frames.ABORTED, done, context)

    def _fence(
        self, procs: Any, count: int, infos: Any, info_count: int, data: int, size: int, done: Any,
        context: int,
    ) -> int:  # fmt: skip
        content = ctypes.string_at(data, size) if size else b""
        ranks: set[int] = set()
        is_world = False
        for index in range(count):
            if procs[index].nspace != self._job.namespace:
                return c.ERR_NOT_SUPPORTED
            is_world = is_world or procs[index].rank == c.WILDCARD
            ranks.add(procs[index].rank)
        self._exchange.later(
            lambda: self._exchange.begin_fence(None if is_world else ranks, content, done, context)
        )
        return c.SUCCESS

    def _modex(self, proc: Any, infos: Any, count: int, done: Any, context: int) -> int:
        rank = proc[0].rank
        node = self._job.node_of(rank)
        if proc[0].nspace != self._job.namespace or node < 0:
            return c.ERR_NOT_FOUND

        def fetch() -> None:
            tag = self._exchange.tag(
                lambda status, data: self._exchange.give(done, context, status, data)
            )
            self._exchange.send(
                {"do": "fetch", "tag": tag, "node": node, "rank": rank, "data": b""}
            )

        self._exchange.later(fetch)
        return c.SUCCESS

    def _publish(self, proc: Any, infos: Any, count: int, done: Any, context: int) -> int:
        pairs = []
        for index in range(count):
            value = infos[index].value
            key = infos[index].key
            if value.type == c.STRING and not key.startswith(b"pmix."):
                pairs.append((key, value.data.string or b""))
        if not pairs:
            return c.ERR_NOT_SUPPORTED
        rank = proc[0].rank

        def publish() -> None:
            open_count = [len(pairs)]
            worst = [c.SUCCESS]

            def told(status: int, _: bytes) -> None:
                open_count[0] -= 1
                worst[0] = c.ERR_DUPLICATE_KEY if status else worst[0]
                if not open_count[0]:
                    done(worst[0], context)

            for key, text in pairs:
                data = rank.to_bytes(4, "big") + text
                self._exchange.ask("publish", key, data, told, rank)

        self._exchange.later(publish)
        return c.SUCCESS

    def _keys(self, keys: Any) -> list[bytes]:
        names: list[bytes] = []
        while keys[len(names)] is not None:
            names.append(keys[len(names)])
        return names

    def _lookup(self, proc: Any, keys: Any, infos: Any, count: int, done: Any, context: int) -> int:
        names = self._keys(keys)
        values: list[tuple[bytes, bytes]] = []
        answers: list[int] = []

        def told_of(name: bytes) -> Callable[[int, bytes], None]:
            def told(status: int, data: bytes) -> None:
                answers.append(status)
                if not status:
                    values.append((name, data))
                if len(answers) == len(names):
                    self._looked_up(values, done, context)

            return told

        def lookup() -> None:
            for name in names:
                self._exchange.ask("lookup", name, b"", told_of(name))

        self._exchange.later(lookup)
        return c.SUCCESS

    def _looked_up(self, values: list[tuple[bytes, bytes]], done: Any, context: int) -> None:
        if not values:
            done(c.ERR_NOT_FOUND, None, 0, context)
            return
        entries = (c.Pdata * len(values))()
        for index, (name, data) in enumerate(values):
            entry = entries[index]
            entry.proc = c.Proc(self._job.namespace, int.from_bytes(data[:4], "big"))
            entry.key = name
            entry.value.type = c.STRING
            entry.value.data.string = data[4:]
        self._exchange.keep(entries)
        done(c.SUCCESS, entries, len(values), context)

    def _unpublish(
        self, proc: Any, keys: Any, infos: Any, count: int, done: Any, context: int
    ) -> int:
        names = self._keys(keys) if keys else []
        if not names:
            return c.ERR_NOT_SUPPORTED

        def unpublish() -> None:
            for name in names[:-1]:
                self._exchange.ask("unpublish", name, b"", lambda status, data: None)
            self._exchange.ask(
                "unpublish", names[-1], b"", lambda status, data: done(c.SUCCESS, context)
            )

        self._exchange.later(unpublish)
        return c.SUCCESS

"""The pools that slurm_bb_pools names, asked for again every half minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pyslurm_ng.conf.burst_buffer_conf import BurstBufferConf
from pyslurm_ng.ctld.burst_buffers.calls import Calls
from pyslurm_ng.ctld.rules.buffers.pools import Pool, PoolError, parse_pools

_INTERVAL_S = 30.0  # as in Slurm 22.05
_SYSTEM = -1  # whose turn it is


class PoolList:
    """Knows the pools.

    Attributes:
        pools: by name, as the site's function said last.
    """

    def __init__(
        self,
        calls: Calls,
        conf: Callable[[], BurstBufferConf],
        error: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.pools: Mapping[str, Pool] = {}
        self._calls = calls
        self._conf = conf
        self._error = error
        self._changed = changed
        self._said = ""

    async def keep(self) -> None:
        """Ask for ever."""
        while True:
            await self.ask()
            await asyncio.sleep(_INTERVAL_S)

    async def ask(self) -> None:
        """Ask once; what cannot be had leaves things as they are, and is said once."""
        limit_s = self._conf().other_timeout
        outcome = await self._calls.call("validate", _SYSTEM, "slurm_bb_pools", (), limit_s)
        problem, pools = outcome.text, self.pools
        if not outcome.code:
            try:
                pools, problem = parse_pools(outcome.text), ""
            except PoolError as error:
                problem = str(error)
        if problem and problem != self._said:
            self._error(f"burst_buffer/lua: slurm_bb_pools: {problem}")
        self._said = problem
        if pools != self.pools:
            self.pools = pools
            self._changed()

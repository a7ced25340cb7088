"""Changing accounting."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.web.call import Answer, Call

ROUTES: dict[tuple[str, str], Callable[[Call], Answer]] = {}

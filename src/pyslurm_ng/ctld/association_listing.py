"""Answers `sshare` and `scontrol show assoc_mgr`: associations with what they have used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.associations import show_associations
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.wire.query_messages import ShowAssociations
from pyslurm_ng.wire.stream import Call


class AssociationListing:
    """Lists associations, their limits and their usage of this moment."""

    def __init__(
        self,
        writer: Writer,
        usage: UsageIndex,
        fair_share: FairShare,
        context: Callable[[Caller], Context],
    ) -> None:
        self._writer = writer
        self._usage = usage
        self._fair_share = fair_share
        self._context = context

    def handle(self, call: Call, caller: Caller) -> None:
        """Answer one ShowAssociations."""
        request, context = call.request, self._context(caller)
        assert isinstance(request, ShowAssociations)
        used, spent = self._usage.counted(context.now_us)
        answer = partial(
            show_associations,
            self._writer.cluster,
            context.conf,
            request,
            caller,
            used,
            spent,
            self._fair_share.standing(context.now_us),
        )
        self._writer.look(answer, call)

"""Answers `sshare` and `scontrol show assoc_mgr`: associations with what they have used."""

from __future__ import annotations

from collections.abc import Iterator

from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.associations import show_associations
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.service import Service
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.wire.query_messages import ShowAssociations
from pyslurm_ng.wire.stream import Call


class AssociationListing:
    """Lists associations, their limits and their usage of this moment."""

    def __init__(
        self, writer: Writer, usage: UsageIndex, fair_share: FairShare, service: Service
    ) -> None:
        self._writer = writer
        self._usage = usage
        self._fair_share = fair_share
        self._service = service

    def handle(self, call: Call, caller: Caller) -> None:
        """Answer one ShowAssociations; others have their turn meanwhile."""
        self._service.slices.run(self._answer(call, caller), call.holder.lane)

    def _answer(self, call: Call, caller: Caller) -> Iterator[None]:
        # Many of one user may have waited here, and their command may have been ended.
        if call.is_gone:
            return
        try:
            request, context = call.request, self._service.context(caller)
            assert isinstance(request, ShowAssociations)
            used, spent = self._usage.counted(context.now_us)
            answer = yield from show_associations(
                self._writer.cluster,
                context.conf,
                request,
                caller,
                used,
                spent,
                self._fair_share.standing(context.now_us),
            )
            self._writer.look(lambda: answer, call)
        except Exception as error:  # noqa: BLE001 - the command gets an answer all the same
            self._service.fault(call, caller, error)

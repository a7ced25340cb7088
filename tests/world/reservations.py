"""A site with reservations: what the rules answer to `scontrol create`, `update` and `delete`."""

from __future__ import annotations

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.reservation.reservations import delete_reservation, update_reservation
from pyslurm_ng.model.cluster import node_state
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.wire.query_messages import DeleteReservation, UpdateReservation
from tests.world.callers import ROOT
from tests.world.site import Site


class ReservationSite(Site):
    """A site where root makes, changes and deletes reservations."""

    def reserve(
        self, name: str = "", *, create: bool, who: Caller = ROOT, **settings: str | int
    ) -> Decision | Reject:
        """Return what the rule answers; keys `users_` stand for `users+`."""
        typed = {key.replace("_", "+"): str(value) for key, value in settings.items()}
        request = UpdateReservation(bytes(16), name, typed, create)
        outcome = update_reservation(self.cluster, request, self.context(who))
        if isinstance(outcome, Decision):
            self.apply(outcome.events)
        return outcome

    def make(self, name: str = "r", **settings: str | int) -> Reservation:
        """Make a reservation, from now for two hours for alice unless told otherwise."""
        if not {"users", "accounts", "groups", "qos"} & set(settings):
            settings["users"] = "alice"
        fields = {"starttime": self.now_us, "duration": 120, **settings}
        outcome = self.reserve(name, create=True, **fields)
        assert isinstance(outcome, Decision), outcome
        return self.cluster.reservations[outcome.reply.name]  # type: ignore[union-attr]

    def not_made(self, name: str = "r", **settings: str | int) -> int:
        """Return the number that making a reservation is refused with."""
        fields = {"starttime": self.now_us, "duration": 120, "users": "alice", **settings}
        outcome = self.reserve(name, create=True, **fields)
        assert isinstance(outcome, Reject), outcome
        return outcome.code

    def change(self, name: str = "r", **settings: str | int) -> Reservation:
        """Change a reservation."""
        outcome = self.reserve(name, create=False, **settings)
        assert isinstance(outcome, Decision), outcome
        return self.cluster.reservations[name]

    def not_changed(self, name: str = "r", **settings: str | int) -> int:
        """Return the number that a change is refused with."""
        outcome = self.reserve(name, create=False, **settings)
        assert isinstance(outcome, Reject), outcome
        return outcome.code

    def delete(self, name: str = "r", who: Caller = ROOT) -> int:
        """Delete a reservation; return 0 or the number it is refused with."""
        request = DeleteReservation(bytes(16), name)
        outcome = delete_reservation(self.cluster, request, self.context(who))
        if isinstance(outcome, Reject):
            return outcome.code
        self.apply(outcome.events)
        return 0

    def names(self, reservation: Reservation | str = "r") -> list[str]:
        """Return the names of a reservation's nodes."""
        if isinstance(reservation, str):
            reservation = self.cluster.reservations[reservation]
        return self.cluster.node_names(reservation.node_ids)

    def flags(self, name: str) -> int:
        """Return a node's flags."""
        node = self.cluster.node(self.cluster.node_index.by_name[name])
        return node_state(self.cluster, node)[1]

"""What a reservation is shown to hold."""

from __future__ import annotations

from pyslurm_ng.ctld.queries.reservations import RESERVATION_FIELDS, show_reservations
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.wire.query_messages import Records, ShowReservations
from tests.model.clusters import START_US
from tests.world.callers import ROOT
from tests.world.site import Site


def test_licences_of_a_reservation_are_tres_where_they_are_tracked() -> None:
    """As in Slurm; without a node it holds nothing else."""
    site = Site("Licenses=fluent:10,ansys:5\nAccountingStorageTRES=license/fluent")
    reservation = Reservation("lic", START_US, START_US + 1, licenses="fluent:5,ansys:1")
    site.apply([ev.ReservationCreated(START_US, reservation)])
    reply = show_reservations(
        site.cluster, site.soft, site.conf, ShowReservations(), ROOT, START_US
    )
    assert isinstance(reply, Records)
    (row,) = project(reply.records, range(len(RESERVATION_FIELDS)))
    shown = dict(zip(RESERVATION_FIELDS, row, strict=True))
    assert (shown["tres"], shown["licenses"]) == ("license/fluent=5", "fluent:5,ansys:1")

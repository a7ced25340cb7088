"""`scontrol update job` as scripts see it, and what they make of it."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import NO_VAL, NO_VAL16
from pyslurm_ng.ctld.site_policy.changes import as_request, as_settings
from pyslurm_ng.policy.change_fields import CHANGE_FIELDS
from pyslurm_ng.policy.description import Description, Said
from tests.world.site import Site


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


def changed(
    site: Site, settings: dict[str, str], **values: int
) -> tuple[Description, dict[str, str]]:
    """Return what a script sees of settings, and the settings after it has set some fields."""
    before = as_request(settings, site.job())
    job = Description(dict(before), Said(), known={}, fields=CHANGE_FIELDS)
    seen = Description(dict(before), Said(), known={}, fields=CHANGE_FIELDS)
    for name, value in values.items():
        job.set(name, value)
    return seen, as_settings(settings, before, job.request)


@pytest.mark.parametrize(
    ("field", "mark"),
    [
        ("contiguous", NO_VAL16),
        ("mail_type", NO_VAL16),
        ("max_nodes", NO_VAL),
        ("min_cpus", NO_VAL),
        ("pn_min_cpus", NO_VAL16),
        ("reboot", NO_VAL16),
        ("requeue", NO_VAL16),
        ("shared", NO_VAL16),
    ],
)
def test_what_a_change_leaves_alone_is_not_given(site: Site, field: str, mark: int) -> None:
    """Also beside settings that would imply it in a submission."""
    settings = {"comment": "x", "cpuspertask": "2", "numtasks": "3", "numnodes": "2"}
    seen, after = changed(site, settings)
    assert seen.get(field) == mark
    assert after == settings


@pytest.mark.parametrize(
    ("key", "text", "field", "value", "chosen", "becomes"),
    [
        ("contiguous", "yes", "contiguous", 1, 0, "0"),
        ("contiguous", "0", "contiguous", 0, 1, "1"),
        ("mailtype", "END,fail", "mail_type", 6, 2, "END"),
        ("mailtype", "END", "mail_type", 2, 0, "NONE"),
        ("numcpus", "2", "min_cpus", 2, 4, "4"),
        ("oversubscribe", "yes", "shared", 1, 0, "0"),
        ("oversubscribe", "no", "oversubscribe", 0, 1, "1"),
        ("reboot", "yes", "reboot", 1, 0, "0"),
        ("requeue", "0", "requeue", 0, 1, "1"),
    ],
)
def test_scripts_see_and_set_what_a_change_says(
    site: Site, key: str, text: str, field: str, value: int, chosen: int, becomes: str
) -> None:
    """One that sets the mark takes the setting away; one can set what was not asked for."""
    seen, after = changed(site, {key: text}, **{field: chosen})
    assert (seen.get(field), after) == (value, {key: becomes})
    mark = NO_VAL if field == "min_cpus" else NO_VAL16
    assert changed(site, {key: text, "nice": "1"}, **{field: mark})[1] == {"nice": "1"}
    assert changed(site, {"nice": "1"}, **{field: chosen})[1] == {"nice": "1", key: becomes}

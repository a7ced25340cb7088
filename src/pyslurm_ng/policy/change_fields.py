"""The fields of a job's change, where they read otherwise than those of a submission.

A submission has a value for what nobody asked for; a change says only what it changes. So its
map has numbers of their own for what a request keeps in its flags: 0 is "no", absent "as it was".
"""

from __future__ import annotations

from pyslurm_ng.base.numbers import NO_VAL, NO_VAL16
from pyslurm_ng.policy.job_fields import FIELDS, Field, number

_SHARED = number("oversubscribe", NO_VAL16, zero=None)

CHANGE_FIELDS: dict[str, Field] = {
    **FIELDS,
    "contiguous": number("contiguous", NO_VAL16, zero=None),
    "mail_type": number("mail_type", NO_VAL16, zero=None),
    "min_cpus": number("min_cpus", NO_VAL, zero=None),
    "oversubscribe": _SHARED,
    "pn_min_cpus": number("mincpus", NO_VAL16),
    "reboot": number("reboot", NO_VAL16, zero=None),
    "requeue": number("requeue", NO_VAL16, zero=None),
    "shared": _SHARED,
}
"""Every field of a change, by Slurm's name."""

"""What --cpu-freq and CpuFreqDef may ask for: a frequency, a range of them, a governor."""

from __future__ import annotations

import re

_STEP = r"low|medium|highm1|high|[1-9][0-9]{0,8}"
_GOVERNOR = "conservative|ondemand|performance|powersave|schedutil|userspace"
FREQUENCY = re.compile(
    rf"(?P<low>{_STEP})(-(?P<high>{_STEP})(:(?P<governor>{_GOVERNOR}))?)?|(?P<only>{_GOVERNOR})"
)
"""Matches text in lower case."""

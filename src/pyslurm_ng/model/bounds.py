"""The bounds of values in messages: each kind of value once, with the reason for its number.

Every field of a message is typed with one of these, so a value out of bounds is refused while it
is decoded, before a rule, a parser or the journal sees it. The message table demands that each
field has such a type. The reference page, the tests and the fuzzers read the same bounds from the
table.

A bound is as wide as what Slurm takes. It keeps sums and products inside 64 bits and texts inside
what is stored. Rules decide what makes sense, and refuse the rest with Slurm's error numbers.
Characters are counted as Python counts them; a database column does the same.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from pyslurm_ng.base.numbers import INFINITE, NO_VAL

# Numbers --------------------------------------------------------------------------------------

Number32 = Annotated[int, Meta(ge=0, le=INFINITE)]
"""A number of Slurm's that has 32 bits; the highest two say "not given" and "no limit"."""
Number32OrNone = Annotated[int, Meta(ge=-1, le=INFINITE)]
"""The same where -1 says "not given"."""
Number16 = Annotated[int, Meta(ge=0, le=65535)]
"""A number of Slurm's that has 16 bits: specialised cores, seconds before a signal, ports."""
JobIdField = Number32
"""Slurm's job and step ids have 32 bits; step ids above 4294967279 mean words."""
UserIdField = Number32
"""The kernel's uids and gids have 32 bits; 4294967294 is "not given"."""
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""Of nodes, tasks, CPUs: Slurm's options take a positive int. Two of them multiply in 64 bits."""
StepCount = Annotated[int, Meta(ge=0, le=1 << 24)]
"""Of nodes, tasks, CPUs, MiB of a step: a job has no more than 4,194,304 nodes."""
Amount = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Any other count: what journal, database and the kernel's counters hold."""
AmountOrNone = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
"""The same where -1 says "not known" or "no limit"."""
Number64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""What a column of a database holds; a place in its order."""
Mebibytes = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""Memory: 8 ZiB, and with 1,024 CPUs still below 2**63."""
Watts = Annotated[int, Meta(ge=0, le=1_000_000)]
"""What one node draws."""
Minutes = Number32
"""A time limit; 4294967295 is none, 4294967294 "not given". In microseconds it fits 64 bits."""
UnixTimeUs = Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
"""A moment, to the end of the year 9999: later moments have no date."""
SpanUsOrNone = Annotated[int, Meta(ge=-1, le=253_402_300_799_999_999)]
"""A duration, no longer than all dates together; -1 says "not known"."""
Nice = Annotated[int, Meta(ge=-2147483645, le=2147483645)]
"""The range of --nice."""
Signal = Annotated[int, Meta(ge=0, le=64)]
"""Linux has signals 1 to 64; 0 is none."""
WaitStatus = Number32
"""A wait(2) status: 16 bits, with room for what older nodes report."""
Pid = Annotated[int, Meta(ge=0, le=1 << 22)]
"""The kernel's PID_MAX_LIMIT."""
Umask = Annotated[int, Meta(ge=0, le=0o777)]
"""umask(2) looks at no more bits."""
FileTimeUs = Annotated[int, Meta(ge=-253_402_300_799_999_999, le=253_402_300_799_999_999)]
"""A file's time of change, which may be before 1970."""
FileMode = Annotated[int, Meta(ge=0, le=0o7777)]
"""chmod(2) looks at no more bits."""
FlagBits = Annotated[int, Meta(ge=0, le=(1 << 48) - 1)]
"""Options that are only on or off; the highest in use is bit 35."""
Switch = Annotated[int, Meta(ge=0, le=NO_VAL)]
"""0 and 1, or 4294967294 for "not given"."""
MailTypes = Annotated[int, Meta(ge=0, le=2047)]
"""The eleven MAIL_* bits."""

RlimitName = Literal[
    "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"
]
"""The limits that --propagate knows. A task gets no other limit, even if the kernel has more."""
RlimitValue = AmountOrNone
Rlimit = tuple[RlimitName, RlimitValue, RlimitValue]
"""Name, soft and hard limit; -1 is no limit."""

# Texts ----------------------------------------------------------------------------------------

WordText = Annotated[str, Meta(max_length=64)]
"""One of a few words: --hint, --distribution, sbatch."""
NameText = Annotated[str, Meta(max_length=128)]
"""A name that accounting has a column of 128 for: account, QOS, WCKey, user, node."""
LabelText = Annotated[str, Meta(max_length=255)]
"""A name or short list that accounting has a column of 255 for: one reservation, MCS label."""
HostText = Annotated[str, Meta(max_length=255)]
"""A host's name or address: the longest name of the DNS."""
JobNameText = Annotated[str, Meta(max_length=1024)]
"""Workflow tools make names of more than 255 characters; accounting stores the first 255."""
PartitionListText = Annotated[str, Meta(max_length=1024)]
"""--partition; accounting stores the first 255, and one name as soon as the job runs."""
ShortText = Annotated[str, Meta(max_length=1024)]
"""A list of few words: --reservation, --qos, --network, --tres-freq, --gpu-freq, --acctg-freq."""
PathText = Annotated[str, Meta(max_length=4096)]
"""A file name or pattern: the kernel's PATH_MAX."""
ListText = Annotated[str, Meta(max_length=4096)]
"""A short list or expression: --constraint, --gres, --licenses, --nodes, --mail-user."""
LineText = Annotated[str, Meta(max_length=4096)]
"""A line for a log or a user's terminal: why something failed."""
HostListText = Annotated[str, Meta(max_length=131_072)]
"""Nodes: eight thousand names written out, millions in brackets; the most an argument holds."""
DependencyText = Annotated[str, Meta(max_length=131_072)]
"""--dependency: as many jobs as are allowed, with ids of ten digits, the most an argument holds."""
ArrayText = Annotated[str, Meta(max_length=65536)]
"""--array: ten thousand indexes written out."""
LongText = Annotated[str, Meta(max_length=65536)]
"""Free text, as Slurm's columns hold: --comment, --extra, --bb, bind masks, one setting."""
FoldedText = Annotated[str, Meta(max_length=1 << 20)]
"""What a program folded for many nodes: host lists, `4(x2),1` lists."""
SubmitLineText = Annotated[str, Meta(max_length=1 << 20)]
"""The command line: Slurm's default for max_submit_line_size, which cuts it."""
WordOfArgv = Annotated[str, Meta(max_length=131_072)]
"""One argument: the kernel's MAX_ARG_STRLEN."""

MOST_WORDS_OF_ARGV = 65536
MOST_CONTAINER_OPTIONS = 32
"""exec(2) takes 2 MiB of arguments, with the pointers to them: these, of 24 characters each."""
MOST_TRAFFIC = 8
"""TRES of networks and file systems whose traffic a step counts."""
MOST_RLIMITS = 10

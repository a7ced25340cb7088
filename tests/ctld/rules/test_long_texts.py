"""The longest texts that a message may hold cost the controller's thread next to nothing.

RELIABILITY 53, 54 and 54b.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from pyslurm_ng.base import hostlist, tres
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.ctld.rules.queue.dependency_text import MOST_TERMS, parse_dependency
from pyslurm_ng.ctld.rules.reservation.settings import _tres_parts
from pyslurm_ng.ctld.rules.submission.job_array import ArrayError, parse_array
from pyslurm_ng.ctld.rules.submission.place import full_license_names
from pyslurm_ng.dbd.admin import words
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.sizes import node_sizes
from pyslurm_ng.sched.request import extra, features
from pyslurm_ng.wire import messages, table
from pyslurm_ng.wire.dbd_messages import Assignment
from tests.model.clusters import FOUR_NODES, cluster_of, conf_of, submit

BUDGET_S = 1.0
"""Generous: most take a millisecond. What was quadratic took from seconds to hours."""
CONF = conf_of(f"{FOUR_NODES}\nLicenseParameters=RemoteFuzzyMatch\n")
CLUSTER = cluster_of(CONF)
for _ in range(5):
    submit(CLUSTER, JobRequest())


def longest(field: str, kind: str = "SubmitJob") -> int:
    """Return how many characters a field may have."""
    assert messages.row(kind)
    (bound,) = (row for row in table.bounds(kind) if row.path == field)
    return bound.kind.max_length  # type: ignore[attr-defined,no-any-return]


def filled(piece: str, count: int, head: str = "", tail: str = "") -> str:
    """Return a text of at most so many characters, full of a piece."""
    return head + piece * ((count - len(head) - len(tail)) // len(piece)) + tail


def dependency(text: str) -> object:
    return parse_dependency(CLUSTER, text)


def licences(text: str) -> object:
    return full_license_names(CLUSTER, text, CONF)


def array(text: str) -> object:
    return parse_array(text, 4_000_001)


def user_hostlist(text: str) -> object:
    return hostlist.expand(text, len(CLUSTER.node_index.by_name) + hostlist.REPEATS)


Parser = Callable[[str], object]
DEPENDENCY, ARRAY = longest("request.dependency"), longest("request.array")
HOSTS, LIST = longest("request.node_list"), longest("request.constraint")
LONG, SETTING = longest("request.extra"), longest("settings{}", "UpdateJob")
TEXTS: list[tuple[str, Parser, str]] = [
    ("same jobs", dependency, filled("afterok:1,", DEPENDENCY, tail="afterok:1")),
    ("same job", dependency, filled(":1", DEPENDENCY, head="afterok")),
    ("jobs", dependency, "afterany:" + ":".join(map(str, range(10_000, 17_000)))),
    ("singletons", dependency, filled("singleton,", DEPENDENCY, tail="singleton")),
    ("any", dependency, filled("afterok:1?", DEPENDENCY, tail="afterok:1")),
    ("brackets", dependency, filled("[", DEPENDENCY, head="afterok:1_")),
    ("closing brackets", dependency, filled(",]", DEPENDENCY, head="afterok:1_")),
    ("task bomb", dependency, filled(":1_[0-999]", DEPENDENCY, head="afterok")),
    ("delays", dependency, filled(":1+5", DEPENDENCY, head="after")),
    ("and", features.ways, filled("a&", LIST, tail="a")),
    ("or", features.ways, filled("a|", LIST, tail="a")),
    ("parentheses", features.ways, "(" * (LIST // 2) + "a" + ")" * (LIST // 2 - 1)),
    ("bracket ways", features.ways, filled("[a|b]&", LIST, tail="a")),
    ("counts", features.ways, filled("a*1&", LIST, tail="a")),
    ("extra", extra.parse, filled("a=1&", LONG, tail="a=1")),
    ("extra parentheses", extra.parse, filled("(", LONG)),
    ("ranges", array, filled("0-3999999,", ARRAY, tail="1")),
    ("steps", array, filled("0-3999999:2,", ARRAY, tail="1")),
    ("indexes", array, ",".join(map(str, range(0, 24_000, 2)))[:ARRAY].rpartition(",")[0]),
    ("hosts", user_hostlist, filled("n[1-65536],", HOSTS)),
    ("one bomb", user_hostlist, "n[1-1000000]"),
    ("product", user_hostlist, "n" + "[0-9]" * 6),
    ("bracket lists", user_hostlist, filled("1,", HOSTS, head="n[", tail="1]")),
    ("many brackets", user_hostlist, filled("[1]", HOSTS, head="n")),
    ("some brackets", user_hostlist, filled("n[1][1][1][1][1][1][1][1],", HOSTS)),
    ("gres", tres.parse_gres, filled("gpu:a:1,", LIST, tail="gpu:b:1")),
    ("tres", tres.parse_tres, filled("cpu=1,", SETTING, tail="mem=1")),
    ("licences", licences, filled("a:1,", LIST, tail="b")),
    ("node counts", node_sizes, filled("1-60000:2,", LIST, tail="1")),
    ("job ids", parse_job_id, filled("1,", SETTING, head="5_[", tail="1]")),
    ("job id steps", parse_job_id, filled("0-99999:2,", SETTING, head="5_[", tail="1]")),
]


@pytest.mark.parametrize(("parse", "text"), [case[1:] for case in TEXTS], ids=[c[0] for c in TEXTS])
def test_the_longest_text_is_read_or_refused_at_once(parse: Parser, text: str) -> None:
    """Never a RecursionError, and the controller is not held up."""
    for cached in (features.parse, features.ways, extra.parse, node_sizes):
        cached.cache_clear()
    # Collecting what a thousand tests before this one have left is not the parser's work.
    gc.disable()
    begun_s = time.thread_time()
    try:
        value = parse(text)
    except (ValueError, ArrayError, JobIdError):  # each parser's own error is one
        value = None
    finally:
        spent_s = time.thread_time() - begun_s
        gc.enable()
    assert spent_s < BUDGET_S
    assert value is None or value != ""


def test_thousands_of_jobs_may_be_waited_for() -> None:
    """A bound must not forbid what workflow tools write."""
    cluster = cluster_of()
    ids = [submit(cluster, JobRequest()) for _ in range(5000)]
    text = "afterok:" + ":".join(map(str, ids))
    assert len(text) < DEPENDENCY
    terms = parse_dependency(cluster, text)
    assert not isinstance(terms, Reject)
    assert [term.job_id for term in terms[0]] == ids


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("request.dependency", "afterok" + ":4294960000" * MOST_TERMS),
        ("request.reservation", ",".join(["weekly_maintenance_window"] * 39)),
        ("request.qos", ",".join(["interactive_high"] * 60)),
        ("request.node_list", ",".join(f"node-{n:06}" for n in range(10_000))),
        ("request.exclude", ",".join(f"node-{n:06}" for n in range(10_000))),
    ],
)
def test_bounds_are_as_wide_as_what_slurm_takes(field: str, text: str) -> None:
    """Slurm 22.05 takes names of 1,020 characters and lists as long as an argument can be."""
    assert len(text) <= longest(field)


def test_too_many_terms_are_refused_in_words() -> None:
    refusal = parse_dependency(CLUSTER, "afterok" + ":1_[0-999]" * 20)
    assert isinstance(refusal, Reject)
    assert refusal.code == Errno.ESLURM_DEPENDENCY
    assert refusal.detail == "dependency: at most 8192 jobs and tasks are allowed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a&" * 300 + "a", "more than 256 features"),
        ("(" * 40 + "a" + ")" * 40, "more than 32 parentheses inside one another"),
    ],
)
def test_too_long_a_constraint_is_refused_in_words(text: str, said: str) -> None:
    """Each node of the cluster is compared with it in every pass."""
    with pytest.raises(features.FeatureError, match=said):
        features.ways(text)


def test_tasks_named_a_thousand_times_are_found_once_each() -> None:
    """`scancel 5_[1,3,5,...]` looked at every range for every task: 100,000 x 10,000."""
    waiting = ((0, 99_999, 1),)
    named = tuple((first, 99_999, 1) for first in range(10_000))
    begun_s = time.thread_time()
    assert task_ranges.intersect(waiting, named) == (waiting, ())
    odd = tuple((first, first, 1) for first in range(1, 20_000, 2))
    inside, outside = task_ranges.intersect(waiting, odd)
    assert (task_ranges.count(inside), task_ranges.count(outside)) == (10_000, 90_000)
    assert time.thread_time() - begun_s < BUDGET_S


def test_words_of_sacctmgr_are_read_at_once() -> None:
    """As long as its message may be: sixteen lists of the longest value."""
    value = filled("a,", SETTING)
    assignments = [Assignment("Names", "=", value), Assignment("Accounts", "=", value)] * 8
    begun_s = time.thread_time()
    conditions = words.read_where("association", assignments)
    assert (
        len(conditions.values("Names", lower=True)) + len(conditions.values("Accounts")) > 100_000
    )
    assert time.thread_time() - begun_s < BUDGET_S


def test_cpus_of_a_reservation_are_read_at_once() -> None:
    """Each number was put behind a text that grew."""
    begun_s = time.thread_time()
    assert len(_tres_parts(filled("1,", SETTING, head="cpu="))) == 2
    assert time.thread_time() - begun_s < BUDGET_S

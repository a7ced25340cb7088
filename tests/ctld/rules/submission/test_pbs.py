"""JobSubmitPlugins=pbs, against what Slurm 22.05 did with the same words."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL, REQ_HOLD
from pyslurm_ng.ctld.rules.context import Caller, Decision
from pyslurm_ng.ctld.rules.submission import pbs
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.job_messages import JobAccepted
from pyslurm_ng.wire.query_messages import JobsChanged, UpdateJob
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

CONF = "JobSubmitPlugins=pbs"


def terms(job: Job) -> list[tuple[str, int]]:
    """Return what a job waits for."""
    return [(term.kind, term.job_id) for term in job.dependencies]


def notes(site: Site, dependency: str) -> list[str]:
    """Submit a job of alice; return what she is told."""
    answer = site.answer(dependency=dependency)
    assert isinstance(answer, Decision)
    assert isinstance(answer.reply, JobAccepted)
    return answer.reply.notes


def update(site: Site, job: Job, who: Caller = ROOT, **settings: str) -> list[str] | int:
    """Change a job; return errors, or the number of a refusal of the whole request."""
    message = UpdateJob(bytes(16), jobs=[str(job.job_id)], settings=settings)
    outcome = update_job(site.cluster, message, site.context(who))
    if isinstance(outcome, Reject):
        return outcome.code
    assert isinstance(outcome.reply, JobsChanged)
    site.apply(outcome.events)
    return [text for _, _, text in outcome.reply.errors]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("before", "after"),
        ("beforeok", "afterok"),
        ("beforenotok", "afternotok"),
        ("beforeany", "afterany"),
    ],
)
def test_a_job_may_make_others_wait_for_it(word: str, kind: str) -> None:
    """The new job itself waits for nothing; the others are not run before it."""
    site = Site(CONF)
    first, second = site.job(), site.job()
    new = site.job(dependency=f"{word}:{first.job_id}:{second.job_id}")
    assert (terms(first), terms(second)) == ([(kind, new.job_id)],) * 2
    assert (new.dependencies, first.reason, first.eligible_us) == ((), Reason.Dependency, 0)
    assert first.request.dependency == f"{kind}:{new.job_id}"
    site.run_pass()
    assert (new.state, first.state) == (JobState.RUNNING, JobState.PENDING)


def test_the_others_run_after_it() -> None:
    """What `before` has made of them is a dependency like any other."""
    site = Site(CONF)
    first = site.job()
    new = site.running(dependency=f"beforeok:{first.job_id}")
    site.ended(new, 0)
    site.run_pass()
    assert first.state == JobState.RUNNING


def test_words_of_slurm_stay() -> None:
    """Of a list the words of PBS are taken out."""
    site = Site(CONF)
    first, second = site.job(), site.job()
    new = site.job(dependency=f"afterok:{first.job_id},before:{second.job_id}")
    assert terms(new) == [("afterok", first.job_id)]
    assert new.request.dependency == f"afterok:{first.job_id}"
    assert terms(second) == [("after", new.job_id)]


def test_a_job_waits_until_so_many_have_named_it() -> None:
    """`on:2` holds it, its comment has the count, and the second `before` releases it."""
    site = Site(CONF)
    job = site.job(dependency="on:2", comment="mine")
    assert (job.priority, job.reason) == (0, Reason.JobHeldUser)
    assert job.comment.startswith("mine,on:2,stdout=")
    site.job(dependency=f"beforeok:{job.job_id}")
    assert job.comment.startswith("mine,on:1,")
    assert job.priority == 0
    last = site.job(dependency=f"beforeok:{job.job_id}")
    assert job.comment.startswith("mine,on:0,")
    assert (job.priority, job.reason) == (NO_VAL, Reason.Dependency)
    assert len(job.dependencies) == 2
    site.job(dependency=f"before:{job.job_id}")
    assert job.comment.startswith("mine,on:0,")
    assert terms(job)[1] == ("afterok", last.job_id)


def test_ten_is_a_number_too() -> None:
    """Slurm 22.05 loses the count there."""
    site = Site(CONF)
    job = site.job(dependency="on:10")
    site.job(dependency=f"before:{job.job_id}")
    assert job.comment.startswith("on:9,stdout=")


def test_a_hold_that_counts_nothing_stays() -> None:
    """Slurm 22.05 would release it."""
    site = Site(CONF)
    held_job, of_admin = site.job(flags=REQ_HOLD), site.job(dependency="on:1")
    assert update(site, of_admin, priority="0") == []
    new = site.job(dependency=f"before:{held_job.job_id}:{of_admin.job_id}")
    for job in (held_job, of_admin):
        assert (terms(job), job.priority) == ([("after", new.job_id)], 0)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("synccount:2", "unknown job dependency option synccount:2"),
        ("on", "unknown job dependency option on"),
        ("beforecorr:1", "unknown job dependency option beforecorr:1"),
        ("before:999", "invalid job dependency before 999"),
        ("before:abc", "invalid job dependency before abc"),
        ("before:0", "invalid job dependency before 0"),
    ],
)
def test_what_neither_has_is_discarded(word: str, why: str) -> None:
    """The job is accepted; Slurm writes the same line to its log, here the user reads it."""
    assert notes(Site(CONF), dependency=word) == [f"job_submit/pbs: discarding {why}"]


def test_jobs_of_others_and_jobs_that_run_are_left_alone() -> None:
    """So is one that waits for any of several, and one that this job waits for itself."""
    site = Site(CONF)
    running = site.running()
    of_bob, behind = site.job(BOB), site.job()
    either = site.job(dependency=f"after:{behind.job_id}?afterany:{behind.job_id}")
    ids = [of_bob.job_id, running.job_id, either.job_id, behind.job_id]
    dependency = f"after:{behind.job_id},before:{':'.join(map(str, ids))}"
    prefix = "job_submit/pbs: discarding "
    assert [line.removeprefix(prefix) for line in notes(site, dependency=dependency)] == [
        f"before {ids[0]}: Access/permission denied",
        f"job before dependency on non-pending job {ids[1]}",
        f"before {ids[2]}: it waits for any of several jobs, not for all",
        f"before {ids[3]}: Circular job dependency",
    ]
    assert [of_bob.dependencies, running.dependencies, behind.dependencies] == [(), (), ()]
    assert len(either.dependencies) == 2


def test_components_may_name_the_same_job() -> None:
    """It waits for each of them."""
    site = Site(CONF)
    job = site.job()
    words = f"before:{job.job_id}"
    site.submit_parts(*(JobRequest(dependency=words, work_dir="/w") for _ in range(2)))
    assert [kind for kind, _ in terms(job)] == ["after", "after"]


@pytest.mark.parametrize(
    ("std_out", "shown"),
    [("", "/w/slurm-{}.out"), ("/tmp/%j-%j", "/tmp/{}-%j"), ("out.%u", "/w/out.%u")],
)
def test_the_comment_says_where_output_goes(std_out: str, shown: str) -> None:
    """As commands of PBS show it: the first %j is replaced."""
    job = Site(CONF).job(std_out=std_out, work_dir="/w")
    assert job.comment == f"stdout={shown.format(job.job_id)}"


def test_a_comment_without_room_stays() -> None:
    """A count has to be there; the path need not."""
    longest = "x" * 65536
    site = Site(CONF)
    assert site.job(comment=longest, work_dir="/w").comment == longest
    assert site.job(comment=longest, dependency="on:1").comment.endswith("x,on:1")


def test_without_the_plugin_its_words_are_refused() -> None:
    """As by Slurm."""
    site = Site()
    assert site.refused(dependency="on:1") == Errno.ESLURM_DEPENDENCY
    assert site.job(work_dir="/w").comment == ""


# Updates ------------------------------------------------------------------------------------------


def test_updates_know_the_words_too() -> None:
    """A count holds the job, and replaces the one before; other notes stay in the comment."""
    site = Site(CONF)
    first, job = site.job(), site.job(comment="mine")
    assert update(site, job, ALICE, dependency=f"before:{first.job_id}") == []
    assert terms(first) == [("after", job.job_id)]
    assert (job.dependencies, job.priority) == ((), NO_VAL)
    for count in (3, 2):
        assert update(site, job, ALICE, dependency=f"on:{count}") == []
    assert (job.priority, job.reason) == (0, Reason.JobHeldUser)
    assert (job.comment.count("on:"), job.comment.endswith("on:2")) == (1, True)
    assert job.comment.startswith("mine,stdout=")


def test_an_update_shows_the_new_path() -> None:
    """Once."""
    site = Site(CONF)
    job = site.job(comment="mine")
    assert update(site, job, ALICE, stdout="/tmp/q") == []
    assert (job.comment, job.request.std_out) == ("mine,stdout=/tmp/q", "/tmp/q")


def test_updates_are_refused_where_submissions_discard() -> None:
    """Nobody would read of it; and nothing is changed."""
    site = Site(CONF)
    job, of_bob = site.job(), site.job(BOB)
    assert update(site, job, ALICE, dependency="nonsense:1") == Errno.ESLURM_DEPENDENCY
    (text,) = update(site, job, ALICE, dependency=f"on:1,before:{of_bob.job_id}")  # type: ignore[misc]
    assert text == f"job_submit/pbs: discarding before {of_bob.job_id}: Access/permission denied"
    assert (job.priority, of_bob.dependencies) == (NO_VAL, ())
    message = UpdateJob(bytes(16), jobs=["1", "2"], settings={"dependency": "before:1"})
    outcome = update_job(site.cluster, message, site.context(ROOT))
    assert isinstance(outcome, Reject)
    assert outcome.code == Errno.ESLURM_DEPENDENCY


def test_a_dependency_is_cleared_as_ever() -> None:
    """Slurm 22.05 keeps it."""
    site = Site(CONF)
    first = site.job()
    job = site.job(dependency=f"after:{first.job_id}")
    assert update(site, job, ALICE, dependency="") == []
    assert job.dependencies == ()


def test_too_many_words_are_not_looked_at() -> None:
    """The dependency's own bound refuses them."""
    words = pbs.translated("before:1," * 9000)
    assert (words.before, words.dependency.count("before")) == ((), 9000)

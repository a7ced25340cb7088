"""A script that hangs keeps its own user waiting, and nobody else (ADR 0087)."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.site_policy.gate import MOST_ENDING, MOST_WORKERS
from tests.model.clusters import FOUR_NODES, conf_of
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.played_scripts import PlayedSite


def user(uid: int) -> Caller:
    return Caller(uid, uid, f"u{uid}")


@pytest.fixture
def site() -> PlayedSite:
    """One process, which has loaded the scripts."""
    played = PlayedSite()
    played.gate.load(lambda errors: None)
    played.processes[0].load()
    return played


def names(site: PlayedSite) -> list[str]:
    return [name for name, _ in site.passed]


def test_quick_answers_need_one_process(site: PlayedSite) -> None:
    """It has several questions at a time; users take turns."""
    for number in range(40):
        site.submit(ALICE, f"a{number}")
    site.submit(BOB, "b")
    assert len(site.processes) == 1
    assert len(site.processes[0].asked) == 32
    site.processes[0].answer()
    site.processes[0].answer()
    assert "b" in site.processes[0].asked
    while site.processes[0].asked:
        site.processes[0].answer()
    assert len(site.passed) == 41


def test_others_are_asked_another_process_while_a_question_hangs(site: PlayedSite) -> None:
    """RELIABILITY 46: each hanging request of a user kept everybody waiting for five seconds."""
    site.submit(ALICE, "hangs")
    site.submit(ALICE, "next")
    site.submit(BOB, "quick")
    first = site.processes[0]
    assert first.asked == ["hangs", "next", "quick"]
    first.be_slow()
    site.processes[1].load()
    assert site.processes[1].asked == ["quick"]
    site.processes[1].answer()
    assert names(site) == ["quick"]
    first.end()
    site.clock.turn()
    assert site.refused == [("hangs", "job_submit: the script took longer than 5 seconds")]
    assert site.processes[1].asked == ["next"]


def test_what_a_slow_process_was_asked_besides_is_decided_once(site: PlayedSite) -> None:
    """It is ended after its answer, before it can work on what others are asked by now."""
    site.submit(ALICE, "slow")
    site.submit(BOB, "quick")
    site.processes[0].be_slow()
    site.processes[0].answer()
    assert site.processes[0].is_closed
    site.processes[1].load()
    site.processes[1].answer()
    assert names(site) == ["slow", "quick"]


def test_a_user_keeps_one_process_busy_at_most(site: PlayedSite) -> None:
    """The rest of this user's requests wait for it, old and new ones."""
    for number in range(5):
        site.submit(ALICE, f"a{number}")
    site.processes[0].be_slow()
    site.submit(ALICE, "a5")
    assert site.asked[1:] == []
    site.submit(BOB, "b")
    site.processes[1].load()
    assert site.processes[1].asked == ["b"]
    site.processes[0].answer()
    for _ in range(10):
        for process in site.processes:
            while process.asked and not process.is_closed:
                process.answer()
    assert sorted(names(site)) == ["a0", "a1", "a2", "a3", "a4", "a5", "b"]


def test_a_slow_site_has_a_few_processes_and_loses_none(site: PlayedSite) -> None:
    """A script that asks a slow server is slow for all; then each process has one question."""
    for uid in range(1001, 1011):
        site.submit(user(uid), str(uid))
    site.processes[0].be_slow()
    for _ in range(30):
        for process in [*site.processes]:
            if process.is_closed:
                continue
            if process.told and not process.asked:
                process.load()
            elif process.asked:
                assert len(process.asked) == 1 or process is site.processes[0]
                process.be_slow()
                process.answer()
    assert sorted(names(site)) == [str(uid) for uid in range(1001, 1011)]
    assert len(site.asked) <= MOST_WORKERS


def hang(site: PlayedSite, caller: Caller, name: str = "hangs") -> None:
    """Let a script hang on a request until its time is over."""
    site.submit(caller, name)
    process = next(each for each in site.processes if name in each.asked and not each.is_closed)
    process.be_slow()
    site.clock.now_s += 5
    process.end()
    site.clock.turn()
    site.submit(ROOT, "well")
    for each in site.processes:
        if not each.is_closed and not each.asked:
            each.load()
        while each.asked and not each.is_closed:
            each.answer()


def test_a_user_whose_requests_hang_is_refused_at_once_for_a_while(site: PlayedSite) -> None:
    """Three in a minute; what waits is refused, too, and others are decided as before."""
    for _ in range(3):
        hang(site, ALICE)
    said = "job_submit: the script did not get over 3 requests of uid 1001 in a minute"
    assert any(line.startswith(said) for line in site.log.lines)
    before = len(site.refused)
    site.submit(ALICE, "at once")
    assert site.refused[before][1].startswith(said)
    site.submit(BOB, "b")
    site.processes[-1].answer()
    assert names(site)[-1] == "b"
    site.clock.now_s += 60
    site.submit(ALICE, "later")
    site.processes[-1].answer()
    assert names(site)[-1] == "later"


def test_operators_may_try_as_often_as_they_like(site: PlayedSite) -> None:
    """They mend the script."""
    for _ in range(5):
        hang(site, ROOT)
    site.submit(ROOT, "mended")
    assert site.processes[-1].asked == ["mended"]


def test_a_script_that_hangs_for_everybody_refuses_at_once(site: PlayedSite) -> None:
    """With its reason; one request at a time is tried, and the first answer ends that."""
    for uid in range(1001, 1004):
        site.submit(user(uid), str(uid))
    site.processes[0].be_slow()
    for _ in range(2):
        site.processes[-1].load()
        site.processes[-1].be_slow()
    site.submit(user(1004), "waits")
    for process in [*site.processes]:
        if not process.is_closed and process.asked:
            process.end()
    why = "job_submit: the script took longer than 5 seconds"
    assert dict(site.refused)["waits"] == f"{why}; scripts are tried with one request at a time"
    site.clock.turn()
    site.submit(BOB, "tried")
    site.submit(ALICE, "at once")
    assert dict(site.refused)["at once"].startswith(why)
    if not site.processes[-1].asked:
        site.processes[-1].load()
    site.processes[-1].answer()
    site.submit(ALICE, "one")
    site.submit(BOB, "two")
    assert names(site) == ["tried"]
    assert site.processes[-1].asked == ["one", "two"]


def test_scripts_that_cannot_be_loaded_again_refuse_at_once(site: PlayedSite) -> None:
    """Each request was one more try of five seconds."""
    site.processes[0].end("the process of the script was ended by signal 9")
    site.submit(ALICE, "a")
    site.submit(BOB, "b")
    site.processes[1].end("loading took longer than 5 seconds")
    why = "job_submit: loading took longer than 5 seconds"
    assert dict(site.refused) == {"a": why, "b": why}
    site.submit(BOB, "tried")
    site.submit(BOB, "at once")
    assert dict(site.refused)["at once"].startswith(why)
    site.processes[2].load()
    assert site.processes[2].asked == ["tried"]


def test_processes_that_cannot_be_killed_stay_few(site: PlayedSite) -> None:
    """A script that reads a file of a server that is gone does not end; the rest goes on."""
    for _ in range(MOST_ENDING):
        site.submit(ROOT, "hangs")
        process = site.processes[-1]
        if not process.asked:
            process.load()
        process.stays = True
        process.end()
        site.clock.turn()
    site.submit(ROOT, "at once")
    why = "job_submit: 8 processes of scripts do not end although they were killed"
    assert site.refused[-1] == ("at once", why)
    assert len(site.processes) == MOST_ENDING
    site.processes[0].stays = False
    site.clock.now_s += 11
    site.submit(ROOT, "again")
    site.processes[-1].load()
    assert site.processes[-1].asked == ["again"]


def test_rights_are_asked_of_requests_that_no_script_has_seen() -> None:
    """Plugins that are taken away while requests wait make nobody an operator."""
    site = PlayedSite()
    site.submit(BOB, "b", priority=9)
    assert not site.passed
    site.gate.adopt(conf_of())
    site.clock.turn()
    site.gate.close()
    assert [who.is_passed for _, who in site.passed] == [False]


def test_other_plugins_ask_about_all_that_waits_anew(site: PlayedSite) -> None:
    """What was asked of the plugins before is no answer of these."""
    site.submit(ALICE, "slow")
    site.submit(ALICE, "held")
    site.submit(BOB, "b")
    site.processes[0].be_slow()
    site.gate.adopt(conf_of(f"{FOUR_NODES}JobSubmitPlugins=python\n"))
    site.clock.turn()
    assert all(process.is_closed for process in site.processes[:-1])
    process = site.processes[-1]
    assert process.begin.plugins == ("python",)
    process.load()
    assert sorted(process.asked) == ["b", "held", "slow"]

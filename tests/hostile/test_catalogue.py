"""The catalogue of attacks: the reproductions of the hostile review, and ten more of each class.

`make soak-hostile` prints a line for each attack, and counts by class at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.d.mounts import can_mount
from tests.daemons.faults import AS_OTHERS
from tests.hostile import critical, faults, jobs, recent, rights, serious
from tests.hostile.arena import Arena, arena, filled
from tests.hostile.attacks import Attack

pytestmark = [
    *AS_OTHERS,
    pytest.mark.soak,
    pytest.mark.skipif(not can_mount(), reason="mount namespaces cannot be made here"),
]
CLASSES = {
    **critical.CLASSES, **serious.CLASSES, **faults.CLASSES, **rights.CLASSES, **jobs.CLASSES,
    **recent.CLASSES,
}  # fmt: skip
LEAST = 11
"""The review's own, and ten that others have thought of."""
REVIEW = {"C1", "C2", "C3", "C4", "C5", *(f"H{number}" for number in range(1, 11))}
ALL = [(name, attack) for name, attacks in CLASSES.items() for attack in attacks]
HELD: Counter[str] = Counter()


@pytest.fixture(scope="module")
def made(pytestconfig: pytest.Config) -> Iterator[Arena]:
    with arena() as made_here:
        yield made_here
    say(pytestconfig, "")
    for name, attacks in CLASSES.items():
        say(pytestconfig, f"{name}: {HELD[name]} of {len(attacks)} attacks had no effect")


def say(config: pytest.Config, line: str) -> None:
    """Print a line whatever pytest captures."""
    manager = config.pluginmanager.getplugin("capturemanager")
    with manager.global_and_fixture_disabled():
        print(line, flush=True)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_reviews_attack_and_ten_more(name: str) -> None:
    names = [attack.name for attack in CLASSES[name]]
    assert len(set(names)) == len(names) >= LEAST
    assert CLASSES.keys() >= REVIEW


@pytest.mark.parametrize(
    ("name", "attack"), ALL, ids=[f"{name}-{attack.name}" for name, attack in ALL]
)
def test_an_attack_has_no_effect(
    made: Arena, pytestconfig: pytest.Config, name: str, attack: Attack
) -> None:
    """It is refused, others are served, and the daemons go on without a fault."""
    said = made.said_by(attack)
    shown = " ".join(said.split())[:100]
    say(pytestconfig, f"{name:<4} {attack.name}: {shown}")
    seen, unseen = (filled(text, made.values()) for text in (attack.seen, attack.unseen))
    assert re.search(seen, said), said
    assert not re.search(unseen, said), said
    made.check_others()
    made.check_daemons()
    if attack.words or attack.messages:
        made.clear()
    HELD[name] += 1


def test_others_have_lost_nothing(made: Arena) -> None:
    """After all attacks: their jobs have run, and the nodes are in service."""
    made.check_jobs()

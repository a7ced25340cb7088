"""burst_buffer.conf: its keys, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.conf.burst_buffer_conf import load_burst_buffer_conf, parse_burst_buffer_conf
from pyslurm_ng.conf.lexer import ConfErrors


def test_a_whole_file(tmp_path: Path) -> None:
    assert load_burst_buffer_conf(str(tmp_path)) == parse_burst_buffer_conf("")
    (tmp_path / "burst_buffer.conf").write_text(
        "Directive=SCRATCH AllowUsers=alice,1002\nFlags=TeardownFailure,PrivateData\n"
        "StageInTimeout=60 StageOutTimeout=70 OtherTimeout=80 ValidateTimeout=2 PollInterval=3\n"
        "GetSysState=/bin/true\n"
    )
    conf = load_burst_buffer_conf(str(tmp_path))
    assert conf.directive == "SCRATCH"
    assert (conf.stage_in_timeout, conf.stage_out_timeout, conf.other_timeout) == (60, 70, 80)
    assert (conf.validate_timeout, conf.poll_interval) == (2, 3)
    assert conf.tears_down_failed and conf.hides_others
    assert conf.may_use("alice", 1001) and conf.may_use("bob", 1002)
    assert not conf.may_use("carol", 1003)
    assert any("GetSysState" in line for line in conf.warnings)


def test_users_may_be_denied_with_colons_as_in_slurm() -> None:
    conf = parse_burst_buffer_conf("DenyUsers=alice:1002\n")
    allowed = [conf.may_use(name, uid) for name, uid in (("alice", 1), ("bob", 1002), ("carol", 3))]
    assert allowed == [False, False, True]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("AllowUsers=a DenyUsers=b", "one of them"),
        ("Directive=a-b", "letters, digits"),
        ("StageInTimeout=0", "StageInTimeout"),
        ("Unknown=1", "unknown key"),
        ("Flags=Nothing", "Flags"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfErrors, match=problem):
        parse_burst_buffer_conf(text)

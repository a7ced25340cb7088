"""slurmrestd's command line."""

from __future__ import annotations

import pytest

from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web.options import BadOptions, Listing, Options, parse_options
from pyslurm_ng.web.program import _person
from pyslurm_ng.web.requester import JWT, LOCAL


def options(*argv: str, **environment: str) -> Options:
    parsed = parse_options(list(argv), environment)
    assert isinstance(parsed, Options)
    return parsed


def test_what_options_mean() -> None:
    """With and without what Slurm's plugins are called."""
    assert options().kinds == {LOCAL, JWT}
    assert options("-a", "rest_auth/jwt").kinds == options("-a", "jwt").kinds == {JWT}
    assert options("-d", "v0.0.46").versions == ("v0.0.46",)
    assert options("-d", "data_parser/v0.0.44+fast,v0.0.43").versions == VERSIONS[:2]
    assert options("-s", "openapi/slurmctld,util").tags == {"slurm", "util"}
    assert options("unix:/a", ":6820").addresses == ["unix:/a", ":6820"]
    assert options("-u", "nobody", "-g", "nogroup", "-f", "/x").conf_path == "/x"
    assert options("-t", "3", "--max-connections", "9").most_connections == 9
    assert options("--generate-openapi-spec").prints_openapi
    assert options("-vv").log_level == options().log_level + 2


def test_variables_stand_in() -> None:
    """For what the command line does not give."""
    chosen = options(SLURMRESTD_LISTEN=":1,unix:/b", SLURMRESTD_AUTH_TYPES="rest_auth/local",
                    SLURMRESTD_OPENAPI_PLUGINS="slurmdbd", SLURMRESTD_MAX_CONNECTIONS="7",
                    SLURMRESTD_SECURITY="disable_user_check")  # fmt: skip
    assert chosen.addresses == [":1", "unix:/b"]
    assert (chosen.kinds, chosen.tags) == ({LOCAL}, {"slurmdb"})
    assert (chosen.most_connections, chosen.checks_user) == (7, False)


@pytest.mark.parametrize(
    "argv",
    [["-a", "rest_auth/none"], ["-d", "v0.0.39"], ["-s", "dbv0.0.39"], ["-t", "0"], ["-t", "x"],
     ["--max-connections", "70000"]],
)  # fmt: skip
def test_what_is_refused(argv: list[str]) -> None:
    """By name, with what is allowed."""
    with pytest.raises(BadOptions, match=argv[0]):
        parse_options(argv, {})


def test_become_user_is_refused() -> None:
    """A token acts for its user; slurmrestd becomes nobody."""
    for words in ("become_user", "nonsense"):
        with pytest.raises(BadOptions, match=words):
            parse_options([], {"SLURMRESTD_SECURITY": words})


def test_a_user_may_be_a_number_without_an_account() -> None:
    """Such a user has nothing else. 0 is root, -1 would be no change at all."""
    assert _person("61999") == ("", 61999, 61999)
    assert _person("0")[:2] == ("root", 0)
    for text in ("nobody-here", str(2**32 - 1), str(2**70)):
        with pytest.raises(BadOptions, match="no such user"):
            _person(text)


def test_lists() -> None:
    """As Slurm prints what there is."""
    for option in ("-a", "-d", "-s"):
        with pytest.raises(Listing, match="Possible"):
            parse_options([option, "list"], {})

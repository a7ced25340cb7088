"""cgroup.conf and slurmdbd.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.conf.cgroup_conf import parse_cgroup_conf
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurmdbd_conf import load_slurmdbd_conf, parse_slurmdbd_conf


def test_a_missing_cgroup_conf_constrains_nothing() -> None:
    conf = parse_cgroup_conf("")
    assert (conf.constrain_cores, conf.constrain_ram_space) == (False, False)
    assert (conf.allowed_ram_space, conf.min_ram_space) == (100, 30)
    assert conf.cgroup_plugin == "autodetect"


def test_cgroup_conf_is_typed() -> None:
    conf = parse_cgroup_conf(
        "CgroupPlugin=cgroup/v2\nconstraincores=YES\nAllowedRAMSpace=98.5\nCgroupAutomount=yes\n"
    )
    assert (conf.cgroup_plugin, conf.constrain_cores, conf.allowed_ram_space) == (
        "cgroup/v2",
        True,
        98.5,
    )
    assert "no longer exists" in conf.warnings[0]


def test_all_mistakes_of_cgroup_conf_are_named() -> None:
    with pytest.raises(ConfErrors) as caught:
        parse_cgroup_conf("CgroupPlugin=v7\nConstrainCores=2\nSwappy=1\nMemorySwappiness=x\n")
    assert [error.line for error in caught.value.errors] == [1, 2, 3, 4]


def test_swappiness_over_100_is_100() -> None:
    """As in Slurm, which rounds it down and says so."""
    conf = parse_cgroup_conf("MemorySwappiness=101\n")
    assert conf.memory_swappiness == 100
    assert conf.warnings == (
        "cgroup.conf:1: MemorySwappiness=101 means the most that is allowed: 100",
    )


def test_slurmdbd_conf_fills_in_what_depends() -> None:
    conf = parse_slurmdbd_conf(
        "StorageType=accounting_storage/mysql\nDbdHost=db\nSlurmUser=slurm\nArchiveJobs=yes\n"
        "PurgeJobAfter=12months\nPurgeStepAfter=30days\n"
    )
    assert (conf.dbd_addr, conf.storage_user) == ("db", "slurm")
    assert conf.archive_job_script is True
    assert conf.purge_job_after == (12, "months")
    assert conf.purge_job_env_after == (12, "months")
    assert conf.purge_step_after == (30, "days")
    assert conf.purge_txn_after == (0, "")


def test_all_mistakes_of_slurmdbd_conf_are_named() -> None:
    with pytest.raises(ConfErrors) as caught:
        parse_slurmdbd_conf("DbdPort=0\nPurgeJobAfter=2fortnights\nStoragePrt=1\n")
    assert [(error.line, error.key) for error in caught.value.errors] == [
        (0, "StorageType"),
        (1, "DbdPort"),
        (2, "PurgeJobAfter"),
        (3, "StoragePrt"),
    ]


def test_a_bad_storage_type_is_one_error() -> None:
    """It was given, so it is not asked for as well."""
    with pytest.raises(ConfErrors) as caught:
        parse_slurmdbd_conf("StorageType=accounting_storage/foo\n")
    assert [(error.line, error.key) for error in caught.value.errors] == [(1, "StorageType")]


def test_a_file_with_a_password_is_private(tmp_path: Path) -> None:
    """RELIABILITY 66."""
    path = tmp_path / "slurmdbd.conf"
    path.write_text("StorageType=accounting_storage/sqlite\n")
    path.chmod(0o640)
    with pytest.raises(ConfErrors, match="mode is 0640; allowed: 0600 or less"):
        load_slurmdbd_conf(str(path))
    path.chmod(0o600)
    assert load_slurmdbd_conf(str(path)).storage_type == "accounting_storage/sqlite"


@pytest.mark.parametrize("word", ["SSLCA=/ca.pem", "SSL_CA=", "SSL_CA"])
def test_a_misspelt_word_about_the_database_is_named(word: str) -> None:
    """By `slurmctld --check`, too: the connection would not be encrypted."""
    line = "StorageType=accounting_storage/mysql\nStorageParameters=SSL_KEY=/key.pem,"
    parse_slurmdbd_conf(f"{line}SOCKET=/run/db.sock\n")
    with pytest.raises(ConfErrors, match=r":2: StorageParameters: '.*' is bad; allowed: SOCKET="):
        parse_slurmdbd_conf(f"{line}{word}\n")

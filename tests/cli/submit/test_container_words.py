"""Options about containers: what they become, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyslurm_ng.cli import salloc
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options

COMMANDS = ("sbatch", "salloc", "srun")


def request_of(command: str, *words: str) -> dict[str, object]:
    options = Options(command)
    options.apply_all(options.split_words(list(words))[0], COMMAND_LINE)
    options.finish()
    return options.request


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bundle_is_an_absolute_path(command: str) -> None:
    request = request_of(command, "--container=bundle", "--container-id=a_1.b-2")
    assert request["container"] == f"{os.getcwd()}/bundle"
    assert request["container_options"] == ["id=a_1.b-2"]


@pytest.mark.parametrize("command", COMMANDS)
def test_options_become_words(command: str, tmp_path: Path) -> None:
    words = (
        "--container-image=/i.tar --container-mounts=/a:/b:ro+nosuid,/c --container-name=n "
        "--container-save=/s.tar --container-workdir=/w --container-env=A,B --container-writable "
        "--container-mount-home --container-remap-root --container-entrypoint --container-id=x"
    ).split()
    assert request_of(command, *words)["container_options"] == [
        "image=/i.tar", "mounts=/a:/b:ro+nosuid,/c", "name=n", "save=/s.tar", "workdir=/w",
        "env=A,B", "writable=", "mount-home=", "remap-root=", "entrypoint=", "id=x",
    ]  # fmt: skip
    off = "--no-container-mount-home --no-container-remap-root --no-container-entrypoint".split()
    left_over = request_of(command, *words[:1], *words[7:10], *off)
    assert left_over["container_options"] == ["image=/i.tar"]
    again = request_of(
        command, "--container-image=/a", "--container-image=/b", "--container-readonly"
    )
    assert again["container_options"] == ["image=/b", "readonly="]
    assert request_of(command, "--container-image=x:1")["container_options"] == ["image=x:1"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--container=", "--container: a path is needed"),
        ("--container=/b --container-image=/i", "--container and options of images exclude"),
        ("--container-writable", "--container-writable needs --container-image"),
        ("--container-image=", "--container-image: a value is needed"),
        ("--container-image=/i --container-mounts=a:/b", "SRC:DST[:FLAGS] with absolute paths"),
        ("--container-image=/i --container-mounts=/a:b", "SRC:DST[:FLAGS] with absolute paths"),
        ("--container-image=/i --container-mounts=/a:/b:suid", "are allowed"),
        ("--container-image=/i --container-workdir=w", "an absolute path is needed"),
        ("--container-image=/i --container-name=../x", "letters, digits, dots, - and _"),
        ("--container-id=a;b --container=/b", "letters, digits, dots, - and _"),
        (f"--container-id={'a' * 129} --container=/b", "at most 128"),
        ("--container-image=/i --container-readonly --container-writable", "exclude each other"),
    ],
)
def test_what_means_nothing_is_refused(words: str, text: str) -> None:
    with pytest.raises(OptionError) as raised:
        request_of("srun", *words.split())
    assert text in str(raised.value)


def test_salloc_starts_a_container_only_with_an_interactive_step() -> None:
    """Its command runs here: a bundle would have no effect."""
    options = Options("salloc")
    options.apply("container", "/bundle", COMMAND_LINE)
    salloc._check_bundle(options, {"LaunchParameters": "use_interactive_step"})
    with pytest.raises(OptionError, match="--container requires LaunchParameters=use_interactive"):
        salloc._check_bundle(options, {})

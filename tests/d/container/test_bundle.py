"""Commands and configurations of containers, and images unpacked from hostile tar files."""

from __future__ import annotations

import io
import json
import os
import shlex
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.d.container import bundle
from pyslurm_ng.d.container.bundle import ContainerError
from pyslurm_ng.d.container.image import Image, save
from pyslurm_ng.d.container.own_directory import make_own, own_place, remove_own
from pyslurm_ng.d.container.patterns import expand, expand_path

EVIL = "x'; touch /tmp/psng-evil; '"


def test_each_value_is_one_word_of_the_command() -> None:
    values = {"b": EVIL, "j": "12", "m": ""}
    text = expand("run %% %j.%b%m -- %@", values, ["a b", EVIL])
    assert shlex.split(text) == ["run", "%", f"12.{EVIL}", "--", "a b", EVIL]
    assert expand_path("/run/%j/%m%%", values) == "/run/12/%"


def test_the_program_and_the_jobs_variables_go_into_the_configuration(tmp_path: Path) -> None:
    config = {
        "process": {"env": ["PATH=/b", "A=bundle", "B=bundle"], "args": ["sh"], "cwd": "/w"},
        "root": {"path": "rootfs"},
        "hooks": {"prestart": [1], "poststop": [2]},
    }
    job = {"PATH": "/host", "A": "job", "SLURM_JOB_ID": "1"}
    made = bundle.with_program(config, str(tmp_path), ["prog"], job, is_terminal=False)
    assert made["process"]["args"] == ["prog"]
    assert made["process"]["env"] == ["PATH=/b", "A=job", "B=bundle", "SLURM_JOB_ID=1"]
    assert made["root"]["path"] == f"{tmp_path}/rootfs"
    assert bundle.without_hooks(made, ["PreStart"])["hooks"] == {"poststop": [2]}
    assert bundle.merged_variables(["A=i"], {"A": "job"}, ["A"]) == {"A": "i"}
    assert bundle.variables_without("^(A|B)=", {"A": "1", "AB": "2"}) == {"AB": "2"}


def test_a_variable_of_two_lines_is_not_in_a_file_of_lines() -> None:
    """Its second line would be another variable."""
    variables = {"A": "1", "F": "x\nLD_PRELOAD=y"}
    assert bundle.environment_text(variables, "\n") == "A=1\n"
    assert bundle.environment_text(variables, "\0") == "A=1\0F=x\nLD_PRELOAD=y\0"


def test_files_of_a_container_are_never_in_a_directory_of_others(tmp_path: Path) -> None:
    """Its owner would choose what the container runs, as the container's user."""
    make_own(f"{tmp_path}/a/b", str(tmp_path))
    make_own(f"{tmp_path}/a/b", str(tmp_path))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    for path in ("open", "link"):
        with pytest.raises(ContainerError, match=f"{path} is not the user's own directory"):
            make_own(f"{tmp_path}/{path}", str(tmp_path))
    with pytest.raises(ContainerError, match="open, where others may write"):
        make_own(f"{tmp_path}/open/mine", str(tmp_path))
    make_own(f"{tmp_path}/open/mine", str(tmp_path / "open"))


def test_directories_that_nobody_may_enter_are_removed(tmp_path: Path) -> None:
    """An overlay leaves one; root could remove it anyway, so another user does it here."""
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    top = tmp_path / "top"
    for directory in (top / "work" / "work", top / "upper" / "closed" / "inner"):
        directory.mkdir(parents=True)
        directory.chmod(0)
    (top / "upper" / "closed").chmod(0)
    (top / "link").symlink_to(kept)
    if os.geteuid() == 0:
        for path in (tmp_path, top, *top.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
    child = os.fork()
    if child == 0:
        os.chdir(tmp_path)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        remove_own("top")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not top.exists()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o755


def test_a_name_that_another_has_taken_keeps_no_user_from_images(tmp_path: Path) -> None:
    assert own_place(str(tmp_path), "c-5") == f"{tmp_path}/c-5"
    (tmp_path / "c-5").chmod(0o777)
    other = own_place(str(tmp_path), "c-5")
    assert other.startswith(f"{tmp_path}/c-5.")
    assert own_place(str(tmp_path), "c-5") == other
    (tmp_path / "c-5").rmdir()
    assert own_place(str(tmp_path), "c-5") == other


@pytest.mark.parametrize("settings", [{"Env": 5}, {"Entrypoint": [1]}, {"WorkingDir": ["/"]}, [1]])
def test_settings_of_an_image_are_of_their_kind(tmp_path: Path, settings: Any) -> None:
    """One line for the user, whatever an image says."""
    path = tmp_path / "image.tar"
    manifest = [{"Config": "config.json", "Layers": []}]
    with tarfile.open(path, "w") as archive:
        for name, said in (("manifest.json", manifest), ("config.json", {"config": settings})):
            body = json.dumps(said).encode()
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    (tmp_path / "store").mkdir()
    with pytest.raises(ContainerError, match=f"--container-image={path}: "):
        Image(str(path), f"{tmp_path}/store")


@pytest.mark.parametrize(
    "config",
    [{"process": {"user": "root"}}, {"process": {"env": 5}}, {"root": {"path": 7}},
     {"linux": {"namespaces": 5}}, {"mounts": [{"options": 7}]}],
)  # fmt: skip
def test_odd_configurations_are_refused_in_one_line(tmp_path: Path, config: Any) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    script = f"""
import json, os, sys
from pyslurm_ng.d.container.task import main
os.geteuid = lambda: 65534
oci = {{"RunTimeRun": "true"}}
settings = {{"job": 1, "step": "0", "node": "n1", "user": "u", "tasks": 1, "is_batch": False,
            "options": {{"bundle": {str(tmp_path)!r}}}, "oci": oci}}
sys.exit(main([json.dumps(settings), "true"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": "/tmp", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "config.json is not as the OCI specification has it" in done.stderr


def test_a_user_gets_a_namespace_for_one_id() -> None:
    config: dict[str, Any] = {
        "process": {"user": {"uid": 0, "gid": 0, "additionalGids": [1]}},
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "user"}],
            "uidMappings": [{"containerID": 0, "hostID": 0, "size": 1}],
            "resources": {},
        },
        "mounts": [
            {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
            {"destination": "/dev/pts", "type": "devpts", "options": ["newinstance", "gid=5"]},
        ],
    }
    made = bundle.for_user(config, 1001, 1002)
    assert made["linux"] == {
        "namespaces": [{"type": "pid"}, {"type": "user"}],
        "uidMappings": [{"containerID": 0, "hostID": 1001, "size": 1}],
        "gidMappings": [{"containerID": 0, "hostID": 1002, "size": 1}],
    }
    assert made["mounts"][0]["type"] == "none"
    assert made["mounts"][1]["options"] == ["newinstance"]
    assert "additionalGids" not in made["process"]["user"]
    assert bundle.for_user(made, 1001, 1002) == made


@pytest.mark.parametrize("text", ["{", "[]", '{"process": 1}', '{"mounts": {}}', "[" * 100_000])
def test_no_configuration_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ContainerError, match=r"config\.json: "):
        bundle.read_config(str(tmp_path))


def archive_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> str:
    with tarfile.open(path, "w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return str(path)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info


@pytest.mark.parametrize(
    "members",
    [
        [(member("../out"), b"x")],
        [(member("d", tarfile.SYMTYPE, "/"), b""), (member("d/out"), b"x")],
        [(member("d", tarfile.SYMTYPE, "../.."), b""), (member("d/out"), b"x")],
        [(member("h", tarfile.LNKTYPE, "../secret"), b"")],
        [(member("../.wh.secret"), b"")],
    ],
)
def test_nothing_outside_of_an_image_is_touched(tmp_path: Path, members: list[Any]) -> None:
    store = tmp_path / "place"
    store.mkdir()
    (store / "secret").write_text("kept")
    source = archive_of(tmp_path / "i.tar", *members)
    with pytest.raises(ContainerError, match="leads out of the image"):
        Image(source, str(store))
    assert not (tmp_path / "out").exists() and not (store / "out").exists()
    assert (store / "secret").read_text() == "kept"


def test_layers_of_a_saved_image_lie_above_each_other(tmp_path: Path) -> None:
    def layer(name: str, *members: tuple[tarfile.TarInfo, bytes]) -> tuple[tarfile.TarInfo, bytes]:
        return member(name), Path(archive_of(tmp_path / "layer", *members)).read_bytes()

    config = {"config": {"Env": ["A=1"], "Entrypoint": ["/e"], "WorkingDir": "/w"}}
    manifest = [{"Config": "c.json", "Layers": ["1.tar", "2.tar"]}]
    source = archive_of(
        tmp_path / "i.tar",
        (member("manifest.json"), json.dumps(manifest).encode()),
        (member("c.json"), json.dumps(config).encode()),
        layer("1.tar", (member("a"), b"old"), (member("b"), b"gone"), (member("d/x"), b"gone")),
        layer("2.tar", (member("a"), b"new"), (member(".wh.b"), b""),
              (member("d/.wh..wh..opq"), b""), (member("d/y"), b"y"),
              (member("dev", tarfile.CHRTYPE), b"")),
    )  # fmt: skip
    store = tmp_path / "place"
    store.mkdir()
    image = Image(source, str(store))
    root = Path(image.path)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    assert names == ["a", "d", "d/y"]
    assert (root / "a").read_text() == "new"
    assert image.settings["Entrypoint"] == ["/e"]
    (root / "a").write_text("changed")
    assert Path(Image(source, str(store)).path, "a").read_text() == "changed"  # not unpacked again
    save(image.path, f"{tmp_path}/saved.tar.gz")
    with tarfile.open(tmp_path / "saved.tar.gz") as archive:
        assert sorted(archive.getnames()) == ["a", "d", "d/y"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("ubuntu:22.04", "to pull images this node needs one of enroot, podman, apptainer"),
        ("docker://x#y/z", "to pull images this node needs one of"),
        ("oci://x", "no such file or directory"),
        ("/nowhere", "no such file or directory"),
        ("{here}/no.tar", "no.tar: neither a tar file nor a squashfs file$"),
    ],
)
def test_other_images_are_refused(
    tmp_path: Path, source: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program that pulls
    (tmp_path / "no.tar").write_text("no archive")
    with pytest.raises(ContainerError, match=text):
        Image(source.format(here=tmp_path), str(tmp_path))

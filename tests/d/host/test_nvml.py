"""What is made of NVML's answers, told by an object with the functions of its binding."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from pyslurm_ng.conf.gres_conf import empty_gres_conf
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.host import gpu_names, gres, nvml


class NVMLError(Exception):
    """As the binding has it."""


@dataclass
class Card:
    """A GPU: its number, the first word of its CPU mask, links to cards, slices it is cut in."""

    minor: int
    cpus: int
    links: list[int] = field(default_factory=list)  # minors, one for each link
    slices: list[tuple[int, int]] = field(default_factory=list)  # parts, MB


class FakeNvml:
    """The functions that are called, over cards in the order of their PCI addresses."""

    NVMLError = NVMLError
    NVML_FEATURE_ENABLED = 1

    def __init__(self, cards: list[Card]) -> None:
        self.cards = cards
        self.is_shut = False

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None:
        self.is_shut = True

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def nvmlDeviceGetMinorNumber(self, card: Card) -> int:
        return card.minor

    def nvmlDeviceGetName(self, card: Card) -> bytes:
        return b"NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetUUID(self, handle: Card | tuple[Card, int]) -> str:
        if isinstance(handle, tuple):
            return f"MIG-{handle[0].minor}-{handle[1]}"
        return f"GPU-{handle.minor}"

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> SimpleNamespace:
        return SimpleNamespace(total=40 << 30)

    def nvmlDeviceGetCpuAffinity(self, card: Card, words: int) -> list[int]:
        return [card.cpus] + [0] * (words - 1)

    def nvmlDeviceGetPciInfo(self, card: Card) -> SimpleNamespace:
        return SimpleNamespace(busId=f"0000:{card.minor:02X}")

    def nvmlDeviceGetNvLinkState(self, card: Card, link: int) -> int:
        if link >= len(card.links):
            raise NVMLError("not supported")
        return 1

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: Card, link: int) -> SimpleNamespace:
        return SimpleNamespace(busId=f"0000:{card.links[link]:02x}".encode())

    def nvmlDeviceGetMigMode(self, card: Card) -> tuple[int, int]:
        return int(bool(card.slices)), 0

    def nvmlDeviceGetMaxMigDeviceCount(self, card: Card) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: int) -> tuple[Card, int]:
        if index >= len(card.slices):
            raise NVMLError("not found")
        return card, index

    def nvmlDeviceGetAttributes(self, handle: tuple[Card, int]) -> SimpleNamespace:
        parts, size = handle[0].slices[handle[1]]
        return SimpleNamespace(memorySizeMB=size, gpuInstanceSliceCount=parts)

    def nvmlDeviceGetGpuInstanceId(self, handle: tuple[Card, int]) -> int:
        return handle[1] + 1

    def nvmlDeviceGetComputeInstanceId(self, handle: tuple[Card, int]) -> int:
        return 0


def test_cards_are_numbered_by_their_files_with_links_in_that_order() -> None:
    """PCI order is not the order of device files; /dev/nvidia10 comes after /dev/nvidia2."""
    fake = FakeNvml([Card(10, 0xF0, [2, 2]), Card(2, 0x0F, [10, 10]), Card(1, 0x0F)])
    gpus = nvml.ask(fake)
    assert [gpu.file for gpu in gpus] == ["/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia10"]
    assert [gpu.links for gpu in gpus] == [(-1, 0, 0), (0, -1, 2), (0, 2, -1)]
    assert gpus[2].cpus == (4, 5, 6, 7)
    assert gpus[0].type_name == "nvidia_a100-sxm4-40gb"
    assert fake.is_shut


def test_slices_are_devices_of_their_own_with_a_type_by_size() -> None:
    """One card in two halves beside a whole one. Slices of a card have no links."""
    fake = FakeNvml([Card(0, 1, [1], [(3, 19968), (4, 19968)]), Card(1, 2, [0])])
    gpus = nvml.ask(fake)
    assert [gpu.type_name for gpu in gpus] == [
        "nvidia_a100-sxm4-40gb_3g.20gb",
        "nvidia_a100-sxm4-40gb_4g.20gb",
        "nvidia_a100-sxm4-40gb",
    ]
    assert [gpu.unique_id for gpu in gpus] == ["MIG-0-0", "MIG-0-1", "GPU-1"]
    assert [gpu.links for gpu in gpus] == [(-1, 0, 1), (0, -1, 1), (1, 1, -1)]
    assert gpus[0].file == gpus[1].file == "/dev/nvidia0"


def test_a_nodes_slices_are_typed_resources_named_by_their_ids() -> None:
    """slurm.conf's type is a part of the detected one; CUDA is told UUIDs."""
    conf = parse_slurm_conf(
        "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\n"
        "NodeName=n1 CPUs=4 Gres=gpu:a100_3g.20gb:1,gpu:4g.20gb:1\n".replace(
            "a100_3g.20gb", "40gb_3g.20gb"
        )
    )
    fake = FakeNvml([Card(0, 1, [], [(3, 19968), (4, 19968)])])
    devices = gres.node_gres(conf.nodes[0], empty_gres_conf(), nvml.ask(fake))
    assert [(node_gres.type, node_gres.count, node_gres.first_index) for node_gres in devices] == [
        ("40gb_3g.20gb", 1, 0),
        ("4g.20gb", 1, 1),
    ]
    assert gpu_names.names_of(devices, [1]) == ("MIG-0-1",)
    whole = gres.node_gres(conf.nodes[0]._replace(gres=()), empty_gres_conf(),
                           nvml.ask(FakeNvml([Card(0, 1)])))  # fmt: skip
    assert gpu_names.names_of(whole, [0]) == ()


def test_a_refusal_is_one_line() -> None:
    class Refusing(FakeNvml):
        def nvmlDeviceGetCount(self) -> int:
            raise NVMLError("Driver Not Loaded")

    with pytest.raises(nvml.DetectionError, match="NVML: Driver Not Loaded"):
        nvml.ask(Refusing([]))

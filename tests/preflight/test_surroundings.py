"""Caches, network plugins and stripes: what is told of them, and that nothing is where there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdogd.plugin import Status
from watchdogd.preflight import surroundings
from watchdogd.preflight.surroundings import Cache, Fabric, LargestFile

MIOPEN = (
    Cache("MIOpen", "MIOPEN_USER_DB_PATH", "/users/u1/.config/miopen", "lustre"),
    Cache("MIOpen", "MIOPEN_CUSTOM_CACHE_DIR", "/users/u1/.cache/miopen", "lustre"),
)
NONE = Fabric()
LARGE = LargestFile("/flash/p1/ckpt/step9/optim.pt", 42_000_000_000, 1)


def told(
    found: tuple[Cache, ...] = (),
    network: Fabric = NONE,
    largest: LargestFile | None = None,
    nodes: int = 4,
) -> list[str]:
    findings = list(surroundings.judge(found, network, largest, nodes=nodes))
    assert {each.status for each in findings} <= {Status.WARNING}  # nothing of it stops a job
    return [f"{each.topic}: {each.text}" for each in findings]


def test_caches_on_a_shared_file_system_are_told_once_a_tool_with_what_moves_them() -> None:
    triton = Cache("Triton", "TRITON_CACHE_DIR", "/home/u1/.triton/cache", "nfs4")
    assert told((*MIOPEN, triton)) == [
        "caches: MIOpen's cache is shared by all nodes (/users/u1/.config/miopen, on lustre), which lock it: "
        "export MIOPEN_USER_DB_PATH=/tmp/$USER-miopen-$SLURM_JOB_ID "
        "MIOPEN_CUSTOM_CACHE_DIR=/tmp/$USER-miopen-$SLURM_JOB_ID",
        "caches: Triton's cache is shared by all nodes (/home/u1/.triton/cache, on nfs4), which lock it: "
        "export TRITON_CACHE_DIR=/tmp/$USER-triton-$SLURM_JOB_ID",
    ]
    assert told((Cache("Triton", "TRITON_CACHE_DIR", "/tmp/t", "tmpfs"),)) == []


def test_a_network_without_its_plugin() -> None:
    (found,) = told(network=Fabric("Slingshot (cxi0)", "librccl-net.so"))
    assert found.startswith(
        "network: the network is Slingshot (cxi0), and librccl-net.so (aws-ofi) is not in"
    )
    assert told(network=Fabric("Slingshot (cxi0)", "librccl-net.so"), nodes=1) == []
    assert told(network=Fabric("Slingshot (cxi0)", "librccl-net.so", found=True)) == []


@pytest.mark.parametrize(("stripes", "count"), [(1, 1), (8, 0), (None, 0)])
def test_a_large_file_on_one_storage_target(stripes: int | None, count: int) -> None:
    found = told(largest=LargestFile(LARGE.path, LARGE.size, stripes))
    text = f"checkpoints: {LARGE.path} of 42 GB lies on one storage target: lfs setstripe -c 8 /flash/p1/ckpt"
    assert found == [f"{text}, for those that come"] * count


@pytest.mark.parametrize(
    ("said", "count"), [("1\n", 1), ("1\n4\n", 4), ("-1\n", None), ("", None), ("lfs: no\n", None)]
)
def test_what_lfs_says_of_stripes(said: str, count: int | None) -> None:
    assert surroundings.stripes(said) == count


@pytest.fixture
def slingshot(tmp_path: Path) -> Path:
    """A node with Slingshot and AMD's GPUs."""
    (tmp_path / "sys/class/cxi/cxi0").mkdir(parents=True)
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("env", "files", "found"),
    [
        ({}, (), False),
        ({"LD_LIBRARY_PATH": "/none:{root}/lib"}, ("librccl-net.so",), True),
        ({"LD_LIBRARY_PATH": "{root}/lib"}, ("libnccl-net.so",), True),
        ({"LD_LIBRARY_PATH": "{root}/lib", "NCCL_NET_PLUGIN": "none"}, ("librccl-net.so",), False),
        ({"LD_LIBRARY_PATH": "{root}/lib", "NCCL_NET_PLUGIN": "ofi"}, ("libnccl-net-ofi.so",), True),
        ({"NCCL_NET_PLUGIN": "{root}/lib/own.so"}, ("own.so",), True),
    ],
)
def test_where_a_plugin_is_looked_for(
    env: dict[str, str], files: tuple[str, ...], found: bool, slingshot: Path
) -> None:
    (slingshot / "lib").mkdir()
    for name in files:
        (slingshot / "lib" / name).touch()
    given = {key: value.format(root=slingshot) for key, value in env.items()}
    seen = surroundings.fabric(given, str(slingshot))
    assert (seen.name, seen.found) == ("Slingshot (cxi0)", found)


def test_a_plugin_that_the_linker_knows_and_a_node_without_such_a_network(slingshot: Path) -> None:
    (slingshot / "etc").mkdir()
    (slingshot / "etc/ld.so.cache").write_bytes(b"\0/opt/aws/librccl-net.so\0")
    assert surroundings.fabric({}, str(slingshot)).found
    assert surroundings.fabric({}, str(slingshot / "etc")) == Fabric()


def test_which_caches_are_used_here(slingshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(slingshot / "home"))
    assert [cache.tool for cache in surroundings.caches({}, str(slingshot))] == ["MIOpen", "MIOpen"]
    assert list(surroundings.caches({}, str(slingshot / "etc"))) == []
    (slingshot / "home/.triton/cache").mkdir(parents=True)
    assert [cache.path for cache in surroundings.caches({}, "/none")] == [f"{slingshot}/home/.triton/cache"]
    (moved,) = surroundings.caches({"TRITON_CACHE_DIR": "/proc/self"}, "/none")
    assert (moved.path, moved.file_system) == ("/proc/self", "proc")

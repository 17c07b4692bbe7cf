"""Which rows of a quota tool hold for a disk."""

from __future__ import annotations

import pytest

from watchdogd.parsers.quota.models import BYTES, StorageLimit
from watchdogd.plugins.disk_quota.coverage import covering
from watchdogd.system.mounts import Mount

ROOT = Mount("/", "ext4", "/dev/sda2")
HOME = Mount("/home", "nfs4", "filer:/home")
ONYX = Mount("/onyx", "gpfs", "/dev/onyxfs")
TANK = Mount("/tank/six", "zfs", "tank/six")
MOUNTS = (ROOT, HOME, ONYX, TANK)


@pytest.mark.parametrize(
    ("path", "mount", "names", "held"),
    [
        ("/onyx/tr4/x", ONYX, ["/onyx/tr4", "/onyx/tr5", "/home", ""], ["/onyx/tr4", ""]),
        ("/onyx/tr4", ONYX, ["onyxfs", "jobtmp"], ["onyxfs"]),
        ("/onyx", ONYX, ["/onyx/tr4", "/home/ines"], ["/onyx/tr4"]),
        (
            "/home/ines",
            HOME,
            ["filer.example.org:/home", "filer.example.org:/work"],
            ["filer.example.org:/home"],
        ),
        ("/home/ines", HOME, ["/", "/home"], ["/home"]),
        ("/home/ines", HOME, ["/onyx"], []),
        ("/home/ines", HOME, ["onyxfs"], []),
        ("/tank/six/run", TANK, ["tank", "tank/six", "tank/five"], ["tank", "tank/six"]),
        ("/srv/x", ROOT, ["/amber/home", "/amber/scratch"], []),
        ("/srv/x", ROOT, ["/dev/mapper/vg-root"], ["/dev/mapper/vg-root"]),
        ("/srv/x", ROOT, ["amber"], ["amber"]),
        ("/srv/x", ROOT, ["amber", "jobtmp"], []),
        ("/srv/SCRATCH2/x", ROOT, ["SCRATCH2", "HOME2"], ["SCRATCH2"]),
    ],
)
def test_rows_of_this_file_system_hold(path: str, mount: Mount, names: list[str], held: list[str]) -> None:
    limits = [StorageLimit(BYTES, f"quota {number}", 1, 2, path=name) for number, name in enumerate(names)]
    assert [each.path for each in covering(limits, (path, path), mount, MOUNTS)] == held


def test_of_several_filesets_the_one_on_the_way_holds() -> None:
    limits = [StorageLimit(BYTES, "q", 1, 2, path="onyxfs", fileset=name) for name in ("home", "tr4", "")]
    held = covering(limits, ("/onyx/tr4/x",), ONYX, MOUNTS)
    assert [each.fileset for each in held] == ["tr4", ""]
    assert covering(limits, ("/onyx/else",), ONYX, MOUNTS) == limits

"""mountinfo read right: escapes, nested and covered mounts."""

from __future__ import annotations

from watchdogd.system.mounts import Mount, mount_of, read_fstab, read_mounts

TEXT = r"""22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw
31 22 0:47 / /data rw,relatime shared:2 master:1 - lustre 10.20.0.5@tcp:10.20.0.6@tcp:/data rw,flock
32 31 0:48 / /data/my\040set rw - nfs4 filer:/vol\0401 rw,vers=4.2
33 22 0:49 / /data2 rw - ext4 /dev/sdb1 rw
34 31 0:50 / /data rw - tmpfs cover rw
garbage
"""


def test_the_deepest_mount_counts_and_the_last_of_one_point() -> None:
    mounts = read_mounts(TEXT)
    assert len(mounts) == 5
    assert mount_of("/data/my set/x", mounts) == Mount("/data/my set", "nfs4", "filer:/vol 1", "rw,vers=4.2")
    assert mount_of("/data/x", mounts) == Mount("/data", "tmpfs", "cover", "rw")
    assert mount_of("/data2", mounts) == Mount("/data2", "ext4", "/dev/sdb1", "rw")
    assert mount_of("/database", mounts) == Mount("/", "overlay", "overlay", "rw")
    assert mount_of("/x", ()) is None


def test_fstab_tells_what_should_be_mounted() -> None:
    text = """# <file system> <mount point> <type> <options> <dump> <pass>
UUID=1 / ext4 defaults 0 1
mgs@tcp:/ark  /ark\\040two  lustre  flock,_netdev
UUID=2 none swap sw 0 0
host:/x /later nfs noauto,user 0 0
"""
    assert read_fstab(text) == (
        Mount("/", "ext4", "UUID=1", "defaults"),
        Mount("/ark two", "lustre", "mgs@tcp:/ark", "flock,_netdev"),
    )


def test_a_name_may_hold_what_else_looks_like_the_end_of_a_line() -> None:
    odd = "/data/a\x0bb\x1cc\x85d\u2028e"
    assert [mount.point for mount in read_mounts(f"30 22 8:2 / {odd} rw - ext4 /dev/sdb rw\n")] == [odd]
    assert [mount.point for mount in read_fstab(f"/dev/sdb\t{odd}  ext4\tdefaults 0 0\r\n")] == [odd]

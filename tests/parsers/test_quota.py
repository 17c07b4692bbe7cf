"""Quota tools' output, in the forms that they are seen in: wrapped, starred, bracketed, localised, cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchdogd.checks import free_space
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota import beegfs, gpfs, lfs_quota, repquota, site_tool, zfs_btrfs_ceph
from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, holds_figures, parse_amount, parse_limit

# ruff: noqa: E501 - tools' lines stand as they are printed

KIB, TIB = 1024, 1024**4


@pytest.mark.parametrize(
    ("text", "bare", "base", "value"),
    [
        ("12", 1024, 1024, 12 * KIB),
        ("12k", 1024, 1024, 12 * KIB),
        ("4.5T", 1024, 1024, 4.5 * TIB),
        ("[77]", 1024, 1024, 77 * KIB),
        ("163841*", 1024, 1024, 163841 * KIB),
        ("1,5G", 1, 1000, 1.5e9),
        ("2,099 GB", 1, 1000, 2099e9),
        ("1 036 089", 1, 1000, 1036089),
        ("4.88 GiB", 1, 1000, 4.88 * 1024**3),
        ("0 Byte", 1, 1024, 0),
        (".11k", 1, 1000, 110),
        ("352k", 1, 1000, 352_000),
    ],
)
def test_amounts(text: str, bare: float, base: int, value: float) -> None:
    assert parse_amount(text, bare=bare, base=base) == pytest.approx(value)


def test_no_limit_and_no_amount() -> None:
    assert [parse_limit(text) for text in ("0", "-", "none", "unlimited", "0k", "", "-1")] == [None] * 7
    with pytest.raises(UnreadableError, match="'many' is no amount"):
        parse_amount("many")


def test_a_counter_that_ran_below_zero_is_no_amount_and_as_a_limit_none() -> None:
    for text, bare in (("18446744073709551615", 1024), ("18014398509481983", 1024), ("16.00E", 1)):
        with pytest.raises(UnreadableError, match="ran below zero"):
            parse_amount(text, bare=bare)
    assert parse_limit("18446744073709551615") is None
    assert parse_limit("9223372036854775807", bare=1024) is None


LFS = """Disk quotas for usr carol (uid 40711):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
       /scratch [2097152] 3145728 4194304       - 9120*   9000   10000  6d23h59m
Some errors happened when getting quota info. Some devices may be not working or deactivated. The data in "[]" is inaccurate.
"""
LFS_WRAPPED = """Project tr4:
Disk quotas for prj 77001 (pid 77001):
     Filesystem    used   quota   limit   grace   files   quota   limit   grace
/gpfsless/project_77001
                 1.5T*     1T      2T    none  352k       0       0       -
Disk quotas for prj 77002 (pid 77002):
     Filesystem    used   bquota  blimit  bgrace   files   iquota  ilimit  igrace
        /scratch     20k      15T     15T       -       5        0       0       -
uid 40711 is using default block quota setting
"""
QUOTA = """Disk quotas for user carol (uid 40711):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
filer:/home 163840* 153600 204800 1800000100 7 0 0 0
/dev/vdb1 100 0 0 8
"""
QUOTA_BLANK = """Disk quotas for user carol (uid 40711):
     Filesystem   space   quota   limit   grace   files   quota   limit   grace
     /work        479G   5120G   7168G            352k   5000k  10000k
     /over        80K*     50K    100K   6days       3       0       0
"""


def test_lfs_quota_with_brackets_stars_and_graces() -> None:
    space, files = lfs_quota.read_limits(LFS)
    assert space == StorageLimit(
        BYTES, "quota of user carol", 2 * 1024**3, 4 * 1024**3, 3 * 1024**3, path="/scratch", inaccurate=True
    )
    assert files == StorageLimit(
        INODES, "quota of user carol", 9120, 10000, 9000, grace="6d23h59m", path="/scratch"
    )


def test_lfs_quota_wrapped_several_reports_and_an_expired_grace() -> None:
    space, files, second, _ = lfs_quota.read_limits(LFS_WRAPPED)
    assert space.path == "/gpfsless/project_77001"
    assert space.used == pytest.approx(1.5 * TIB)
    assert space.expired
    assert files == StorageLimit(INODES, "quota of project 77001", 352_000, path=space.path)
    assert second.hard == pytest.approx(15 * TIB)
    assert second.used == 20 * KIB


def test_posix_quota_raw_graces() -> None:
    text = QUOTA.rsplit("\n", 2)[0]
    space, _ = lfs_quota.read_limits(text, 1_800_000_000)
    assert space.used == 163840 * KIB
    assert (space.soft, space.hard) == (153600 * KIB, 204800 * KIB)
    assert not space.expired
    assert space.grace == "0.0 days"
    assert lfs_quota.read_limits(text, 1_800_000_200)[0].expired


def test_posix_quota_with_blank_graces() -> None:
    _, work, space, files = lfs_quota.read_limits(QUOTA_BLANK)
    assert work == StorageLimit(INODES, "quota of user carol", 352_000, 10_000_000, 5_000_000, path="/work")
    assert space.grace == "6days"
    assert files.used == 3


def test_a_file_system_with_blanks_in_its_name() -> None:
    text = LFS.replace("/scratch [2097152]", "//filer/team share 9").replace("9120*", "1")
    space, _ = lfs_quota.read_limits(text)
    assert (space.path, space.hard) == ("//filer/team share", 4 * 1024**3)


def test_no_quota_is_no_row() -> None:
    assert lfs_quota.read_limits("Disk quotas for user carol (uid 40711): none\n") == []


@pytest.mark.parametrize(
    "text", ["", "lfs: quota failed for /x: No such device", "no configuration file /etc/mtab"]
)
def test_what_is_no_report_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableError, match="no quota report"):
        lfs_quota.read_limits(text)


def test_a_row_that_makes_no_sense_is_named_and_the_others_are_read() -> None:
    said = ToolOutput(QUOTA + "  /dev/vdc1 100 many\n  /dev/vdd1 9 0 0 1 0 0\n")
    assert [limit.path for limit in lfs_quota.read_limits(said)[::2]] == ["filer:/home", "/dev/vdd1"]
    assert said.reading(()).unread == ("/dev/vdb1 100 0 0 8", "/dev/vdc1 100 many")


LFS_DF = """UUID                   1K-blocks        Used   Available Use% Mounted on
ark-MDT0000_UUID     27570664    12825464    14745200  47% /ark[MDT:0]
ark-OST0000_UUID   7807622500  5787591216  2020022376  74% /ark[OST:0]
ark-OST000a_UUID   7807622500  7790000000    17622500  99% /ark[OST:10]
OST000b             : inactive device

filesystem summary:  15615245000 13577591216  2037644876  87% /ark
"""
LFS_DF_I = """UUID                      Inodes       IUsed       IFree IUse% Mounted on
ark-MDT0000_UUID          4.2M       12.3K        4.2M   1% /ark[MDT:0]
filesystem_summary:      1322469       12280     1310189   1% /ark
"""


def test_lfs_df_targets() -> None:
    _, _, full, inactive = lfs_quota.read_targets(LFS_DF)
    assert inactive == lfs_quota.StorageTarget("OST000b", 0.0, 0.0, 0.0)
    assert full == lfs_quota.StorageTarget("ark-OST000a", 7807622500 * KIB, 7790000000 * KIB, 17622500 * KIB)
    [inodes] = lfs_quota.read_targets(LFS_DF_I)
    assert inodes.of == INODES
    assert inodes.size == pytest.approx(4.2e6)
    with pytest.raises(UnreadableError, match="No such file"):
        lfs_quota.read_targets("lfs df: cannot open /ark: No such file or directory")


def test_lfs_project() -> None:
    assert lfs_quota.read_project("  77001 P /scratch/tr4\n") == 77001
    assert lfs_quota.read_project("    0 - /scratch/tr4\n") is None
    assert lfs_quota.read_project("lfs project: failed") is None


MMLSQUOTA_Y = """mmlsquota::HEADER:version:reserved:reserved:filesystemName:quotaType:id:name:blockUsage:blockQuota:blockLimit:blockInDoubt:blockGrace:filesUsage:filesQuota:filesLimit:filesInDoubt:filesGrace:remarks:quota:defQuota:fid:filesetname:
mmlsquota::0:1:::fs1:USR:40711:carol:1048576:2097152:3145728:1024:none:6286:0:0:14:none:i:on:off:2:tr4:
mmlsquota::0:1:::fs1:USR:40711:carol:5:10:20:0:none:1:0:0:0:none:i:on:off:3:other:
mmlsquota::0:1:::fs2:FILESET:3:proj%3Ax:2147483648:2147483648:2147483648:0:expired:6286:2000000:2000000:0:7 days:e:on:off:::
"""
MMLSQUOTA = """Disk quotas for group six (gid 601):
                         Block Limits                                               |     File Limits
Filesystem Fileset    type             TB      quota      limit   in_doubt    grace |    files   quota    limit in_doubt    grace  Remarks
fs1        tr4        GRP             120        180        196          1  5 days  |       33       0     2000        0     none site
fs1        home       USR           20.7G        50G        51G     426.2M     none |
"""


def test_mmlsquota_for_machines() -> None:
    space, files = gpfs.read_quotas(MMLSQUOTA_Y, "fs1", "tr4")
    assert space.of == "quota of user carol in fileset tr4"
    assert (space.used, space.hard, space.soft) == (1049600 * KIB, 3 * 1024**3, 2 * 1024**3)
    assert (files.used, files.hard) == (6300, None)
    fileset = gpfs.read_quotas(MMLSQUOTA_Y, "fs2")
    assert fileset[0].of == "quota of fileset proj:x"
    assert (fileset[0].expired, fileset[1].grace) == (True, "7 days")


def test_mmlsquota_for_people_with_a_cut_line() -> None:
    space, files, home = gpfs.read_quotas(MMLSQUOTA)
    assert space.of == "quota of group six in fileset tr4"
    assert (space.used, space.hard, space.grace) == (121 * TIB, 196 * TIB, "5 days")
    assert files.hard == 2000
    assert home.used == pytest.approx(20.7 * 1024**3 + 426.2 * 1024**2)
    with pytest.raises(UnreadableError, match="no answer of mmlsquota"):
        gpfs.read_quotas("mmlsquota: File system fs9 is not known to the GPFS cluster.")


def test_mmlsattr() -> None:
    assert gpfs.read_fileset("file name:  /fs1/tr4\nfileset name:         tr4\nsnapshot name:\n") == "tr4"
    assert gpfs.read_fileset("mmlsattr: Permission denied") == ""


BEEGFS = """Quota information for storage pool Default (ID: 1):

      user/group      ||           size          ||    chunk files
     name      |  id  ||    used    |    hard    ||  used   |  hard
--------------|------||------------|------------||---------|---------
six           |   601||   2.50 TiB |    4.00 TiB||    12345|unlimited
"""


def test_beegfs_as_table_and_csv() -> None:
    space, files = beegfs.read_quotas(BEEGFS, "group")
    assert space == StorageLimit(BYTES, "quota of group six", 2.5 * TIB, 4.0 * TIB)
    assert files == StorageLimit(INODES, "quota of group six", 12345)
    csv = "name,id,size,hard,files,hard\ncarol,40711,1000,2000,3,40\n"
    assert beegfs.read_quotas(csv, "user")[0].hard == 2000
    with pytest.raises(UnreadableError, match="no answer of beegfs-ctl"):
        beegfs.read_quotas("Error: quota disabled", "user")


def test_cephfs_attributes() -> None:
    told = {"ceph.quota.max_bytes": b"1000", "ceph.quota.max_files": b"0", "ceph.dir.rbytes": b"999"}
    assert zfs_btrfs_ceph.ceph_limits("/c/tr4", told) == [
        StorageLimit(BYTES, "quota of /c/tr4", 999, 1000, path="/c/tr4")
    ]
    assert zfs_btrfs_ceph.ceph_limits("/c", {}) == []
    with pytest.raises(UnreadableError, match="no number"):
        zfs_btrfs_ceph.ceph_limits("/c", {"ceph.quota.max_bytes": b"lots"})


def test_a_site_tool_by_json() -> None:
    text = 'loading modules\n{"used_bytes": 1000, "limit_bytes": "2TB", "used_inodes": 3, "limit_inodes": 0}'
    assert site_tool.read_json(text, "myquota") == [
        StorageLimit(BYTES, "quota by myquota", 1000, 2e12),
        StorageLimit(INODES, "quota by myquota", 3),
    ]
    for wrong, why in (("quota: 3", "printed no JSON"), ('{"a": 1}', "printed none of used_bytes")):
        with pytest.raises(UnreadableError, match=why):
            site_tool.read_json(wrong, "myquota")


WORKSPACES = """Disk area               Capacity(used/max)  Files(used/max)  Cleanup
/projappl/project_77001         24G/50G         36K/100K        n/a
/scratch/project_77001         7.2T/8.0T       2.7M/5.0M        90d
"""


def test_a_site_tool_by_pattern() -> None:
    pattern = r"^/scratch/project_77001\s+(?P<used>\S+)/(?P<limit>\S+)\s+(?P<files>\S+)/(?P<files_limit>\S+)"
    assert site_tool.read_text(WORKSPACES, pattern, "ws") == [
        StorageLimit(BYTES, "quota by ws", 7.2e12, 8e12),
        StorageLimit(INODES, "quota by ws", 2.7e6, 5e6),
    ]
    with pytest.raises(UnreadableError, match="matches nothing"):
        site_tool.read_text(WORKSPACES, r"(?P<used>\d+) potatoes", "ws")


AREAS = """Area            Used   Soft   Hard  Grace   Files  Limit
/home/ines       19G    20G    25G      -     90k   100k
/scratch/tr11   8.5T   8.0T   9.0T  4days    2.1M   5.0M
/scratch/tr12   8.5T   8.0T   9.0T   none    2.1M   5.0M
"""
AREA = r"^\S+\s+(?P<used>\S+)\s+(?P<soft>\S+)\s+(?P<limit>\S+)\s+(?P<grace>\S+)\s+(?P<files>\S+)"


@pytest.mark.parametrize(
    ("row", "used", "soft", "grace", "expired"),
    [
        ("^/home", 19e9, 20e9, "", False),
        ("tr11", 8.5e12, 8e12, "4days", False),
        ("/scratch/tr12 ", 8.5e12, 8e12, "", True),
    ],
)
def test_a_row_names_the_file_system_that_is_meant(
    row: str, used: float, soft: float, grace: str, expired: bool
) -> None:
    blocks, files = site_tool.read(AREAS, AREA, "ws", 0.0, row)
    assert (blocks.used, blocks.soft, blocks.grace, blocks.expired) == (used, soft, grace, expired)
    assert files.kind == INODES


def test_a_row_of_json_of_a_known_form_and_of_nothing() -> None:
    several = (
        '[{"path": "/home", "used_bytes": 5}, {"path": "/scratch/tr11", "used_bytes": 7, "soft_bytes": 6}]'
    )
    (found,) = site_tool.read(several, None, "ws", 0.0, '"/scratch')
    assert (found.used, found.soft, found.path) == (7, 6, "/scratch/tr11")
    weather = site_tool.read(REPQUOTA, None, "repquota", 0.0, "project weather")
    assert {each.of for each in weather} == {"quota of project weather"}
    for text, pattern in ((AREAS, AREA), (several, None), (REPQUOTA, None)):
        with pytest.raises(UnreadableError, match="row '/projappl' matches nothing that ws printed"):
            site_tool.read(text, pattern, "ws", 0.0, "/projappl")


def test_usable_counts_for_what_a_sites_command_tells() -> None:
    limit = replace(site_tool.read(AREAS, AREA, "ws", 0.0, "^/home")[0], by_site=True)
    assert free_space.judge(limit, FreeSpaceLimits(), 0.8).total == pytest.approx(20e9)


REPQUOTA = """*** Report for project quotas on device /dev/nvme1n1p2
Block grace time: 7days; Inode grace time: 7days
                        Block limits                File limits
Project         used    soft    hard  grace    used  soft  hard  grace
----------------------------------------------------------------------
77        +-   10248   20480   10240              2     0     0
weather   ++    3000    2000    9000   none      70    50    90  5days
*** Report for user quotas on device /dev/sdc1
User            used    soft    hard  grace    used  soft  hard  grace
carol     --       8       0       0              1     0     0
"""


def test_repquota_with_blank_graces_and_several_reports() -> None:
    found = repquota.read(REPQUOTA)
    assert [(limit.of, limit.kind, limit.path) for limit in found[::2]] == [
        ("quota of project 77", BYTES, "/dev/nvme1n1p2"),
        ("quota of project weather", BYTES, "/dev/nvme1n1p2"),
        ("quota of user carol", BYTES, "/dev/sdc1"),
    ]
    over, weather, files = found[0], found[2], found[3]
    assert (over.used, over.soft, over.hard) == (10248 * 1024, 20480 * 1024, 10240 * 1024)
    assert (weather.expired, weather.grace, files.expired, files.grace) == (True, "", False, "5days")
    raw = REPQUOTA.replace("   none      70", "   1795800000      70").replace("5days", "0")
    assert repquota.read(raw, now=1795800001.0)[2].expired


XFS = """Project quota on /data (/dev/vdb)
                               Blocks                                          Inodes
Project ID       Used       Soft       Hard    Warn/Grace           Used       Soft       Hard    Warn/ Grace
---------- -------------------------------------------------- --------------------------------------------------
#7              81920   52428800   62914560     00 [--------]         12          0          0     00 [--------]
train            4.5G          4G         5G     00 [6 days]          1k         2k         3k     00 [-none-]
"""


def test_xfs_quota_with_blocks_and_inodes() -> None:
    seven, files, train, counted = repquota.read(XFS)
    assert (seven.of, seven.path, seven.used, seven.hard) == (
        "quota of project 7",
        "/data",
        81920 * 1024,
        60 << 30,
    )
    assert (files.kind, files.used, files.hard) == (INODES, 12, None)
    assert (train.grace, train.used) == ("6 days", 4.5 * (1 << 30))
    assert (counted.used, counted.hard, counted.expired) == (1000, 3000, True)


LFS_POOL = """Disk quotas for usr carol (uid 40711):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
        /ark     500       0    1000       -      12       0       0       -
Pool: ark.nvme
        /ark      90       0     100       -       -       -       -       -
Disk quotas for grp six (gid 601):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
        /ark     500       0    1000       -      12       0       0       -
ark-MDT0000_UUID
                   4       -       0       -      12       -      50       -
ark-OST0000_UUID
                 100*      -     100       -       -       -       -       -
"""


def test_a_pool_is_named_and_the_slices_of_single_targets_are_no_quotas() -> None:
    assert [(each.of, each.hard) for each in lfs_quota.read_limits(LFS_POOL)[::2]] == [
        ("quota of user carol", 1000 * KIB),
        ("quota of user carol in pool nvme", 100 * KIB),
        ("quota of group six", 1000 * KIB),
    ]


def test_a_remote_clusters_file_system_goes_by_its_name_there() -> None:
    remote = MMLSQUOTA_Y.replace(":fs2:", ":fs1:")
    assert len(gpfs.read_quotas(remote, "fs1_here")) == len(gpfs.read_quotas(remote))
    assert gpfs.read_quotas(MMLSQUOTA_Y, "fs1_here") == []


def test_beegfs_pools_are_told_apart() -> None:
    header = "Quota information for storage pool {} (ID: {}):\nname,id,size,hard,files,hard\n"
    text = (
        header.format("Default", 1)
        + "carol,7,1,20,3,40\n"
        + header.format("nvme", 2)
        + "carol,7,19,20,3,40\n"
    )
    assert [(each.of, each.used) for each in beegfs.read_quotas(text, "user")][::2] == [
        ("quota of user carol", 1),
        ("quota of user carol in pool nvme", 19),
    ]


USAGE = """INFO: Quota is not enforced on pool 2
{"name":"carol","id":7,"type":"user","pool":"storage_pool_default","space":"1.50GiB/2.00GiB","inode":"1.2k/∞"}
{"name":"six","id":601,"type":"group","pool":"nvme","space":"20.00TiB/∞","inode":"7/10"}
"""


def test_beegfs_8() -> None:
    space, files, nvme, counted = beegfs.read_usage(USAGE)
    assert space == StorageLimit(BYTES, "quota of user carol", 1.5 * 1024**3, 2 * 1024**3)
    assert files == StorageLimit(INODES, "quota of user carol", 1200)
    assert (nvme.of, nvme.used, nvme.hard) == ("quota of group six in pool nvme", 20 * TIB, None)
    assert counted.hard == 10
    with pytest.raises(UnreadableError, match="no connection to the management"):
        beegfs.read_usage("Error: no connection to the management")
    for wrong in (
        '{"name": "carol"}',
        '{"name"',
        '{"name": [], "type": 1, "space": {}, "inode": 0}',
        "{" * 5000,
    ):
        said = ToolOutput(f"{USAGE}{wrong}\n")
        assert len(beegfs.read_usage(said)) == 4
        assert said.reading(()).unread == (wrong[:200],)


def test_a_site_tools_json_among_other_lines() -> None:
    text = '[site] {maintenance on Monday}\n{"used_bytes": 1,\n "limit_bytes": -1}\n{"used_bytes": 3, "limit_bytes": 4}\nbye\n'
    assert site_tool.read(text, None, "q", 0.0) == [
        StorageLimit(BYTES, "quota by q", 1),
        StorageLimit(BYTES, "quota by q, number 2", 3, 4),
    ]
    coloured = "used: \x1b[31m99G\x1b[0m of \x1b[1m100G\x1b[0m"
    (limited,) = site_tool.read(coloured, r"used: (?P<used>\S+) of (?P<limit>\S+)", "q", 0.0)
    assert (limited.used, limited.hard) == (99e9, 100e9)
    for endless in ('{"used_bytes": 1' + "0" * 5000 + "}", "[" * 100_000):
        with pytest.raises(UnreadableError, match="printed no JSON"):
            site_tool.read_json(endless, "q")


def test_a_report_with_a_broken_line_names_it() -> None:
    said = ToolOutput(REPQUOTA.partition("carol")[0] + "carol     -- gibberish\n")
    assert len(repquota.read(said)) == 4
    assert said.reading(()).unread == ("carol     -- gibberish",)
    with pytest.raises(UnreadableError, match="no report of quotas: 'Permission denied'"):
        repquota.read("Permission denied\n")


def test_amounts_whose_unit_stands_in_the_header_alone() -> None:
    text = "      : used (GB)(   %), quota (GB) | files used, quota\nHOME  :  420( 41%),  1.5T |  773425,  1000000\n"
    pattern = r"(?P<used>\d+)\(.*?\), +(?P<limit>\S+) \| +(?P<files>\d+), +(?P<files_limit>\d+)"
    space, files = site_tool.read(text, pattern, "quota", 0.0, "^HOME", "GB")
    assert (space.used, space.hard, files.used, files.hard) == (420e9, 1.5e12, 773425.0, 1e6)
    with pytest.raises(UnreadableError, match="'1spoons' is no amount"):
        site_tool.read(text, pattern, "quota", 0.0, "^HOME", "spoons")


def test_a_wrapper_that_prints_what_a_known_tool_does_needs_no_pattern() -> None:
    assert site_tool.read(REPQUOTA, None, "sudo", 0.0)[0].of == "quota of project 77"
    lfs = "Disk quotas for prj 9 (pid 9):\n Filesystem used quota limit grace files quota limit grace\n"
    [blocks, _] = site_tool.read(lfs + " /ark 1T 2T 3T - 5 0 0 -\n", None, "wrap", 0.0)
    assert (blocks.of, blocks.hard) == ("quota of project 9", 3 << 40)
    dated = site_tool.read('{"used_bytes": 1, "updated_at": "2026-11-28T03:00:00+01:00"}', None, "q", 0.0)
    assert dated[0].at == 1795831200.0


def test_verbose_lfs_quota_of_lustre_that_names_its_targets_without_uuid() -> None:
    text = """Disk quotas for usr carol (uid 40711):
      Filesystem    used   quota   limit   grace   files   quota   limit   grace
/mnt/ark/scratch  109.5G    200G    220G       -     786  900000 1000000       -
    ark-MDT0000  1.797M       -      0k       -     286       -     286       -
    ark-OST000a  101.6M*      -  101.6M       -       -       -       -       -
quotactl ost3 failed.
Total allocated inode limit: 286, total allocated block limit: 101.6M
    uid 40711 is using default block quota setting
          (Disk usage is at 50%, 109.5 GiB of 220 GiB, Inode usage is at 1%)
Some errors happened when getting quota info. Some devices may be not working or deactivated.
"""
    space, files = lfs_quota.read_limits(text)
    assert (space.path, space.hard, files.hard) == ("/mnt/ark/scratch", 220 << 30, 1e6)


def test_a_wrapper_that_prints_what_two_tools_do() -> None:
    text = """==== HOME ====
Disk quotas for usr carol (uid 40711):
     Filesystem    used   quota   limit   grace   files   quota   limit   grace
     /home/six   48.2G      0k     50G       -  921718       0 1048576       -
uid 40711 is using default file quota setting

==== SCRATCH ====
Quota information for storage pool Default (ID: 1):

      user/group     ||           size          ||    chunk files
     name     |  id  ||    used    |    hard    ||  used   |  hard
--------------|------||------------|------------||---------|---------
         carol| 40711||    4.50 TiB|    5.00 TiB||   687792|unlimited
"""
    said = ToolOutput(text)
    found = site_tool.read(said, None, "disk-quota", 0.0)
    assert [(each.of, each.hard) for each in found] == [
        ("quota of carol", 5 << 40),
        ("quota of carol", None),
        ("quota of user carol", 50 << 30),
        ("quota of user carol", 1048576.0),
    ]
    assert said.reading(()).unread == ()


def test_a_wrapper_of_mmlsquota_and_then_lfs() -> None:
    text = """Disk quotas for user ines (uid 4012):
                         Block Limits                                    |     File Limits
Filesystem type             KB      quota      limit   in_doubt    grace |    files   quota    limit in_doubt    grace  Remarks
essfs      USR            2048       4096       8192          0     none |       12       0        0        0     none n3.site

Disk quotas for usr ines (uid 4012):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
        /flash     6144*   5120   10240  2d11h       30     100     200       -
"""
    found = [each for each in site_tool.read(text, None, "myquota", 0.0) if each.kind == BYTES]
    assert [(each.of, each.used, each.hard, each.grace) for each in found] == [
        ("quota of user ines on essfs", 2 << 20, 8 << 20, ""),
        ("quota of user ines on /flash", 6 << 20, 10 << 20, "2d11h"),
    ]


def test_quotas_of_one_user_on_two_file_systems_are_told_apart() -> None:
    report = (
        "Disk quotas for user carol (uid 7):\n Filesystem blocks quota limit grace files quota limit grace\n"
    )
    text = report + " /home 1G 2G 3G - 5 0 0 -\n" + report + " /data 4G 5G 6G - 5 0 0 -\n"
    found = site_tool.read(text, None, "myquota", 0.0)
    assert [each.of for each in found if each.kind == BYTES] == [
        "quota of user carol on /home",
        "quota of user carol on /data",
    ]


def test_mmlsquota_with_short_column_names() -> None:
    text = """                        Block Limits         |     File Limits
Filesystem Fileset type   KB quota  limit doubt grace | files quota limit doubt grace
gpfs2      set4   USR  4104 10240 153600     8  none |     1  1000  5000     0  none
"""
    blocks, files = site_tool.read(text, None, "quota-report", 0.0)
    assert (blocks.used, blocks.soft, blocks.hard) == (4112 * KIB, 10240 * KIB, 153600 * KIB)
    assert (files.used, files.hard) == (1.0, 5000.0)


def test_zfs_btrfs_and_cephfs_by_their_own_tools() -> None:
    userspace = """TYPE        NAME    USED  QUOTA  OBJUSED  OBJQUOTA
POSIX User  carol   95G   100G      2K        4K
POSIX Group six     1.5G  none        -         -
"""
    carol, files, six = site_tool.read(userspace, None, "zfs", 0.0)
    assert (carol.of, carol.used, carol.hard) == ("quota of user carol", 95 << 30, 100 << 30)
    assert (files.kind, files.used, files.hard) == (INODES, 2048.0, 4096.0)
    assert (six.of, six.used, six.hard) == ("quota of group six", 1.5 * (1 << 30), None)
    properties = "NAME      PROPERTY  VALUE  SOURCE\ntank/home  used  102005473280  -\ntank/home  quota  107374182400  local\n"
    (dataset,) = site_tool.read(properties, None, "zfs", 0.0)
    assert (dataset.of, dataset.used, dataset.hard) == ("quota of tank/home", 102005473280.0, 107374182400.0)
    qgroups = """qgroupid         rfer         excl     max_rfer     max_excl parent
--------         ----         ----     --------     -------- ------
0/5          16.00KiB     16.00KiB         none         none ---
0/257        95.00GiB     90.00GiB    100.00GiB         none ---
"""
    (qgroup,) = site_tool.read(qgroups, None, "btrfs", 0.0)
    assert (qgroup.of, qgroup.used, qgroup.hard) == ("quota of qgroup 0/257", 95 << 30, 100 << 30)
    attributes = '# file: mnt/cephfs/six\nceph.quota.max_bytes="1000000"\nceph.dir.rbytes="990000"\n'
    (directory,) = site_tool.read("getfattr: Removing leading '/'\n" + attributes, None, "getfattr", 0.0)
    assert (directory.of, directory.used, directory.hard) == ("quota of /mnt/cephfs/six", 990000.0, 1e6)


def test_xfs_quota_of_one_user_with_a_device_that_wraps() -> None:
    text = """Disk quotas for User carol (40711)
Filesystem              Blocks      Quota      Limit  Warn/Time      Files      Quota      Limit  Warn/Time      Mounted on
/dev/mapper/vg-scratch
                         98.5M        90M       100M   00 [6 days]      12         10          0   00 [-none-] /data
"""
    blocks, files = site_tool.read(text, None, "xfs_quota", 0.0)
    assert (blocks.of, blocks.path, blocks.grace) == ("quota of user carol", "/data", "6 days")
    assert (blocks.soft, blocks.hard) == (90 << 20, 100 << 20)
    assert (files.kind, files.used, files.soft, files.hard, files.expired) == (INODES, 12.0, 10.0, None, True)
    one = text.replace("vg-scratch\n   ", "vg-scratch ")
    assert site_tool.read(one, None, "xfs_quota", 0.0) == [blocks, files]


def test_mmlsquota_that_numbers_the_kinds_of_quotas() -> None:
    header, row = MMLSQUOTA_Y.splitlines()[:2]
    numbered = row.replace(":USR:", ":0:").replace(":GRP:", ":1:").replace(":FILESET:", ":2:")
    assert gpfs.read_quotas(f"{header}\n{numbered}\n") == gpfs.read_quotas(f"{header}\n{row}\n")


def test_a_border_is_not_what_is_quoted_of_a_table() -> None:
    with pytest.raises(UnreadableError, match=r"'[|] Storage [|] Used [|]'; write a pattern"):
        site_tool.read("+-----+----+\n| Storage | Used |\n+-----+----+\n", None, "lquota", 0.0)


SEVERAL = """Name       Path             Used(G)  (%) Used  SLIMIT(G)  H-LIMIT(G)  Used_Inodes  SLIMIT   HLIMIT   Usage_State    Grace
ines       /onyx/home       61.40    95        50         65          4100         100000   200000   SOFT_EXCEEDED  3days
Now fetching project quotas...
Name            Used(T)   (%) Used   SLIMIT(T)   HLIMIT(T)   Used_Inodes   SLIMIT    HLIMIT    Usage_State   Grace_Period
proj+six        1.98      99         1.90        2.00        771           4194304   6291456   SOFT_EXCEEDED 6days
=====================================================
Jobtmp: /jobtmp/$USER is for jobs only.
                         Block Limits                                    |     File Limits
Filesystem type         blocks      quota      limit   in_doubt    grace |    files   quota    limit in_doubt    grace  Remarks
jobtmp     USR               0         1T        12T          0     none |        1 1000000  2000000        0     none n7.site
Last login: Sat Nov 28 10:11:12 2026 from 10.1.2.3
"""


def test_rows_of_a_table_that_no_reader_knows_are_not_passed_over() -> None:
    said = ToolOutput(SEVERAL)
    found = site_tool.read(said, None, "myquota", 0.0)
    reading = said.reading(found)
    assert {each.path for each in reading.limits} == {"jobtmp"}
    assert [line.split()[0] for line in reading.unread] == ["ines", "proj+six"]
    chosen = ToolOutput(SEVERAL)
    site_tool.read(chosen, r"^ines +\S+ +(?P<used>\S+)", "myquota", 0.0)
    assert chosen.reading(()).unread == ()


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("/scratch/tr4     7.2T/8.0T       2.7M/5.0M        90d", True),
        ("Group quota on /ihome: 2,099 GB (Usage: 127 GB)", True),
        ("home_ines                    20                20  100", True),
        ("/cluster/work/****       7.6 GiB                              195 083", True),
        ("HOME     :   all,    421( 41%),       1024 |      796058( 79%),    1000000 |", True),
        ("Last login: Sat Nov 28 10:11:12 2026 from 10.1.2.3", False),
        ("Usage data updated on: 2026-11-28 11:10:02", False),
        ("You have 3 jobs, 2 of them wait, 1 runs and 0 failed", False),
        ("Block grace time: 7days; Inode grace time: 7days", False),
        ("Quota information for storage pool Default (ID: 1):", False),
        ("1" * 60_000, False),
    ],
)
def test_what_looks_like_a_row_of_figures(line: str, row: bool) -> None:
    assert holds_figures(line) is row


@pytest.mark.parametrize(
    "text",
    [
        LFS.splitlines()[0] + "\n" + LFS.splitlines()[1] + "\n",
        "\n".join(MMLSQUOTA.splitlines()[:3]),
        MMLSQUOTA_Y.splitlines()[0],
        REPQUOTA.partition("77 ")[0],
        XFS.partition("#7")[0],
    ],
)
def test_a_heading_without_a_row_is_bare(text: str) -> None:
    said = ToolOutput(text)
    assert site_tool.read(said, None, "wrap", 0.0) == []
    assert len(said.reading(()).bare) == 1


def test_a_row_whose_end_is_cut_off_is_read_as_far_as_it_goes_and_missed() -> None:
    said = ToolOutput(MMLSQUOTA)
    assert len(gpfs.read_quotas(said)) == 3
    assert [line[:14] for line in said.reading(()).unread] == ["fs1        hom"]


def test_a_counter_that_ran_below_zero_costs_its_own_row() -> None:
    said = ToolOutput(LFS.replace("[2097152]", "18446744073709551615") + "   /home 5 0 9 - 1 0 0 -\n")
    assert {limit.path for limit in lfs_quota.read_limits(said)} == {"/home"}
    assert len(said.reading(()).unread) == 1


def test_attributes_of_several_directories_are_told_apart() -> None:
    text = """# file: mnt/c/six
ceph.quota.max_bytes="1000"
ceph.dir.rbytes="990"

# file: mnt/c/five
ceph.quota.max_bytes="2000"
ceph.dir.rbytes="20"
"""
    found = site_tool.read(text, None, "getfattr", 0.0)
    assert [(each.path, each.used, each.hard) for each in found] == [
        ("/mnt/c/six", 990.0, 1000.0),
        ("/mnt/c/five", 20.0, 2000.0),
    ]


def test_json_objects_that_say_nothing_are_missed_and_the_others_read() -> None:
    said = ToolOutput(
        '[{"used_bytes": 5, "limit_bytes": 9, "path": "/home"},\n {"used": "7T"}]\n/x 7T 8T 9T\n'
    )
    [found] = site_tool.read(said, None, "q", 0.0)
    assert (found.used, found.path) == (5.0, "/home")
    assert said.reading(()).unread[-1] == "/x 7T 8T 9T"
    assert len(said.reading(()).unread) == 3

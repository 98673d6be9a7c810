"""CPUs of this process: quotas of control groups, as containers show them."""

import os

import pytest

from foveal.run import cpus

V1 = "30 20 0:1 {shown} /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct"
V2 = "31 20 0:2 {shown} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"


def quota(root, mount, groups, files):
    """Return the quota that a file system says, with one hierarchy mounted; files are below its mount point."""
    top = root / mount.split()[4].lstrip("/")
    written = {root / "proc/self/mountinfo": f"29 1 8:1 / / rw - ext4 /dev/a rw\n{mount}\n"}
    written |= {root / "proc/self/cgroup": groups, **{top / name: text for name, text in files.items()}}
    for file, text in written.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return cpus.cpu_quota.__wrapped__(root)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "400000 100000\n", "a/b/cpu.max": "max 100000\n"}, 4.0),
        ({"cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "a/b/cpu.max": "800000 100000\n"}, 3.0),
        ({"a/b/cpu.max": "words\n"}, None),
        ({"a/b/cpu.max": "100000 0\n"}, None),
        ({}, None),
    ],
)
def test_version_2(tmp_path, files, found):
    assert quota(tmp_path, V2.format(shown="/"), "0::/a/b\n", files) == found


@pytest.mark.parametrize(("text", "found"), [("250000", 2.5), ("-1", None), ("50000", 0.5)])
def test_version_1(tmp_path, text, found):
    files = {"a/cpu.cfs_quota_us": f"{text}\n", "a/cpu.cfs_period_us": "100000\n"}
    assert quota(tmp_path, V1.format(shown="/"), "5:memory:/m\n4:cpu,cpuacct:/a\n0::/\n", files) == found


@pytest.mark.parametrize("group", ["/docker/c1", "/../other", "/elsewhere/c1"])
def test_a_container_sees_its_own_group_at_the_mount_point(tmp_path, group):
    assert quota(tmp_path, V2.format(shown="/docker/c1"), f"0::{group}\n", {"cpu.max": "200000 100000\n"}) == 2.0


def test_no_control_groups(tmp_path):
    assert cpus.cpu_quota.__wrapped__(tmp_path) is None


@pytest.mark.parametrize("line", ["", "0::", "nonsense", "a - cgroup2", "1 2 3 4 5 - cgroup"])
def test_what_is_no_such_file_is_ignored(tmp_path, line):
    quota(tmp_path, V2.format(shown="/"), "0::/\n", {"cpu.max": "200000 100000\n"})
    (tmp_path / "proc/self/mountinfo").write_text(line)
    assert cpus.cpu_quota.__wrapped__(tmp_path) is None
    (tmp_path / "proc/self/cgroup").write_text(line)
    assert cpus.cpu_quota.__wrapped__(tmp_path) is None


@pytest.mark.parametrize(("limit", "count"), [(None, 6), (4.0, 4), (3.9, 3), (0.2, 1), (64.0, 6)])
def test_the_smaller_of_affinity_and_whole_cpus_of_the_quota(monkeypatch, limit, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)))
    monkeypatch.setattr(cpus, "cpu_quota", lambda: limit)
    monkeypatch.setattr(cpus, "_counted", (-cpus.KEPT_SECONDS, 0))
    assert cpus.cpu_count() == cpus.cpu_count() == count
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    assert cpus.cpu_count() == count
    monkeypatch.setattr(cpus, "_counted", (cpus._counted[0] - cpus.KEPT_SECONDS, count))
    assert cpus.cpu_count() == 1

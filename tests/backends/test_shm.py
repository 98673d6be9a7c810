"""Segments: what a worker reads, and that none outlives its owner."""

import errno
import gc
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from foveal.backends import shm
from foveal.backends.shm import Segment, namespace_id, sweep
from foveal.errors import FovealError, OptionError, RequestError

CREATE = """
import sys
from foveal.backends.shm import Segment
held = Segment.create(4096)
print(held.name, flush=True)
"""


def path(name):
    return f"/dev/shm/{name}"


def is_there(name):
    return os.path.lexists(path(name))


def ours():
    """Return the files in /dev/shm that this process has made."""
    return [name for name in os.listdir("/dev/shm") if name.startswith(f"foveal-{shm._owner()}-")]


@contextmanager
def file_named(name):
    """Put a file there, as if it had been left."""
    with open(path(name), "xb"):
        pass
    try:
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path(name))


@contextmanager
def running(code):
    """Run code in a process of its own, and hand out the process and the line that it prints."""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process, process.stdout.readline().strip()


def name_of(namespace=None, pid=None, start=None):
    """Return a name like that of a segment of this process, but for what is given."""
    own = shm._owner().split("-")
    given = (namespace, pid, start)
    return "-".join(["foveal", *(str(new or old) for new, old in zip(given, own, strict=True)), "0" * 32])


def fill(segment):
    content = np.random.default_rng(7).integers(0, 256, segment.nbytes, np.uint8)
    segment.array()[:] = content
    return content.tobytes()


@pytest.mark.parametrize("nbytes", [1, 4095, 4096, 1_000_003])
def test_a_worker_reads_what_was_written(nbytes):
    with Segment.create(nbytes) as segment:
        content = fill(segment)
        handle = segment.handle()
        file = os.open(path(handle.name), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            assert os.pread(file, handle.nbytes + 1, handle.offset) == content
        finally:
            os.close(file)


@pytest.mark.parametrize("leading", ["", "/"])
def test_the_real_reader_reads_it_and_removes_it(leading):
    reader = pytest.importorskip("smg_grpc_servicer.mm_shm")
    segment = Segment.create(100_000)
    content = fill(segment)
    segment.close()
    handle = segment.handle()
    handle.name = leading + handle.name
    assert reader.tensor_payload_bytes_from_shm(handle) == content
    assert not is_there(segment.name)
    segment.discard()
    assert reader.shm_namespace_id() == namespace_id()


def test_the_namespace_is_the_boot_and_the_device():
    boot, device = namespace_id().split(":")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", boot)
    assert int(device) == os.stat("/dev/shm").st_dev


def test_a_namespace_that_is_not_known_is_empty(monkeypatch, tmp_path):
    monkeypatch.setattr(shm, "DIRECTORY", str(tmp_path / "absent"))
    assert namespace_id.__wrapped__() == ""


def test_the_handle_names_the_file_and_its_owner():
    with Segment.create(10) as segment:
        handle = segment.handle()
        assert (handle.name, handle.offset, handle.nbytes) == (segment.name, 0, 10)
        assert segment.name.startswith(f"{handle.owner_id}-")
        assert shm.NAME.fullmatch(segment.name)
        assert int(segment.name.split("-")[2]) == os.getpid()


def test_only_its_user_may_read_it():
    before = os.umask(0)
    try:
        segment = Segment.create(10)
    finally:
        os.umask(before)
    status = os.lstat(path(segment.name))
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_ISREG(status.st_mode)
    assert status.st_blocks * 512 >= 10


def test_the_memory_is_aligned_and_writable():
    with Segment.create(100) as segment:
        array = segment.array()
        assert array.dtype == np.uint8
        assert array.shape == (100,)
        assert array.flags.writeable
        assert array.ctypes.data % 64 == 0


def test_names_are_not_used_twice():
    segments = [Segment.create(1) for _ in range(50)]
    assert len({segment.name for segment in segments}) == 50


@pytest.mark.parametrize("target", ["a file", "nothing"])
def test_a_name_that_is_taken_by_a_link_is_refused(monkeypatch, tmp_path, target):
    victim = tmp_path / "victim"
    if target == "a file":
        victim.write_bytes(b"precious")
    monkeypatch.setattr(shm.secrets, "token_hex", lambda length: "ab" * length)
    link = path(f"foveal-{shm._owner()}-{'ab' * 16}")
    os.symlink(victim, link)
    try:
        with pytest.raises(RequestError, match="file exists"):
            Segment.create(10)
        assert os.path.islink(link)
        assert victim.exists() == (target == "a file")
    finally:
        os.unlink(link)


@pytest.mark.parametrize("nbytes", [0, -1, 1.5, None, "3"])
def test_no_memory_without_bytes(nbytes):
    with pytest.raises(OptionError, match="at least 1 byte"):
        Segment.create(nbytes)


def test_more_than_there_is_is_refused_when_it_is_made():
    whole = os.statvfs("/dev/shm")
    sizes = [1 << 62, 1 << 63]
    if whole.f_blocks:
        sizes.append(whole.f_blocks * whole.f_frsize + 4096)
    for size in sizes:
        with pytest.raises(RequestError, match=f"^shared memory of {size} bytes cannot be had: [a-z ]+$"):
            Segment.create(size)
    assert ours() == []


@pytest.mark.parametrize("place", ["posix_fallocate", "mmap"])
def test_a_full_device_leaves_nothing(monkeypatch, place):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device", "/dev/shm/secret")

    monkeypatch.setattr(shm.os if place == "posix_fallocate" else shm.mmap, place, refuse)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RequestError, match=r"^shared memory of 4096 bytes cannot be had: no space left on device$"):
        Segment.create(4096)
    assert ours() == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_an_interrupt_while_it_is_made_leaves_nothing(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(shm.os, "posix_fallocate", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        Segment.create(4096)
    assert ours() == []
    assert caught.tb is not None  # it holds the segment, so that nobody collects it


def test_a_machine_without_shared_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(shm, "DIRECTORY", str(tmp_path / "absent"))
    with pytest.raises(FovealError, match="no such file") as caught:
        Segment.create(10)
    assert str(tmp_path) not in str(caught.value)
    assert sweep() == 0


def test_discard_may_be_called_again_and_by_both():
    segment = Segment.create(10)
    os.unlink(path(segment.name))
    segment.discard()
    segment.discard()
    again = Segment.create(10)
    again.discard()
    assert not is_there(again.name)
    with file_named(again.name):  # a name that was discarded is never touched again
        again.discard()
        assert is_there(again.name)


def test_close_leaves_the_file_and_lets_go_of_the_mapping():
    segment = Segment.create(1 << 20)
    descriptors = len(os.listdir("/proc/self/fd"))
    segment.close()
    segment.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors - 1
    assert is_there(segment.name)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert segment.name not in maps.read()
    with pytest.raises(OptionError, match="closed"):
        segment.array()
    segment.discard()
    assert not is_there(segment.name)


def test_an_array_outlives_its_segment():
    segment = Segment.create(1 << 20)
    part = segment.array().view(np.uint32)[7:]
    segment.close()
    segment.discard()
    del segment
    gc.collect()
    part[:] = 5
    assert part.sum() == 5 * part.size


def test_what_nobody_holds_is_removed():
    segment = Segment.create(10)
    name = segment.name
    del segment
    gc.collect()
    assert not is_there(name)


def test_leaving_the_block_removes_it():
    with Segment.create(10) as segment:
        assert is_there(segment.name)
    assert not is_there(segment.name)

    with pytest.raises(KeyError), Segment.create(10) as failed:
        raise KeyError
    assert not is_there(failed.name)


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "held.close()", "raise RuntimeError", "import foveal; del held"])
def test_a_process_that_ends_leaves_nothing(ending):
    done = subprocess.run([sys.executable, "-c", CREATE + ending], capture_output=True, text=True)
    assert shm.NAME.fullmatch(done.stdout.strip()), done.stderr
    assert not is_there(done.stdout.strip())


@pytest.mark.parametrize("reaped", [True, False])
def test_sweep_removes_what_killed_processes_leave(reaped):
    with running(CREATE + "input()") as (killed, left), running(CREATE + "input()") as (living, held):
        own = Segment.create(10)
        killed.send_signal(signal.SIGKILL)
        if reaped:
            killed.wait()
        else:
            os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        assert is_there(left)
        sweep()
        assert not is_there(left)
        assert is_there(held)
        assert is_there(own.name)
        living.communicate("\n")
        assert not is_there(held)


def test_sweep_counts_what_it_removes(monkeypatch, tmp_path):
    monkeypatch.setattr(shm, "DIRECTORY", str(tmp_path))
    start = int(shm._owner().split("-")[2])
    for earlier in (1, 2, 3):
        (tmp_path / name_of(start=start - earlier)).touch()
    (tmp_path / name_of()).touch()
    assert sweep() == 3
    assert sweep() == 0
    assert os.listdir(tmp_path) == [name_of()]


def test_an_id_that_is_used_again_is_not_its_first_owner():
    start = int(shm._owner().split("-")[2])
    with file_named(name_of(start=start - 1)) as left, file_named(name_of()) as kept:
        sweep()
        assert not is_there(left)
        assert is_there(kept)


def dead_pid():
    with running("print(1)") as (process, _):
        process.wait()
    return process.pid


def test_sweep_keeps_what_it_cannot_judge():
    """Another container counts its processes anew."""
    dead = dead_pid()
    namespace = int(shm._owner().split("-")[0])
    names = [
        name_of(namespace=namespace + 1, pid=dead),
        name_of(pid=dead) + "0",
        name_of(pid=dead).replace("foveal", "psm"),
        name_of(pid=f"0{dead}"),
        name_of(pid=f"-{dead}"),
    ]
    for name in names:
        with file_named(name):
            sweep()
            assert is_there(name)


def test_sweep_removes_files_of_its_user_alone(monkeypatch):
    with file_named(name_of(pid=dead_pid())) as name:
        user = os.geteuid()
        monkeypatch.setattr(shm.os, "geteuid", lambda: user + 1)
        sweep()
        assert is_there(name)
        monkeypatch.undo()
        sweep()
        assert not is_there(name)


def test_sweep_removes_nothing_but_regular_files(tmp_path):
    name = name_of(pid=dead_pid())
    makers = {os.mkdir: os.rmdir, os.mkfifo: os.unlink, lambda link: os.symlink(tmp_path, link): os.unlink}
    for make, remove in makers.items():
        make(path(name))
        try:
            sweep()
            assert is_there(name)
        finally:
            remove(path(name))


def test_sweepers_do_not_disturb_each_other(monkeypatch):
    unlink = os.unlink

    def late(name):
        unlink(name)
        unlink(name)

    with file_named(name_of(pid=dead_pid())) as name:
        monkeypatch.setattr(shm.os, "unlink", late)
        sweep()
        assert not is_there(name)


def test_where_processes_cannot_be_looked_at_all_of_them_live(monkeypatch):
    def refuse(pid):
        raise PermissionError

    with file_named(name_of(start=1)) as name:
        monkeypatch.setattr(shm, "_process", refuse)
        sweep()
        assert is_there(name)


@pytest.mark.parametrize("ending", ["discard", "collect", "exit", "sweep"])
def test_a_forked_child_removes_nothing_of_its_parent(ending):
    code = f"""
import os, sys
from foveal.backends.shm import Segment, sweep
held = Segment.create(10)
child = os.fork()
if child == 0:
    own = Segment.create(10)
    assert own.name.split("-")[2] == str(os.getpid()) != held.name.split("-")[2]
    if {ending!r} == "discard":
        held.discard()
    if {ending!r} == "collect":
        del held
    if {ending!r} == "sweep":
        sweep()
    print(own.name, flush=True)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(held.name, os.path.exists("/dev/shm/" + held.name))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    of_child, of_parent, was_there = done.stdout.split()
    assert was_there == "True"
    assert not is_there(of_child)
    assert not is_there(of_parent)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_writes_into_the_memory_of_its_parent():
    segment = Segment.create(10)
    child = os.fork()
    if child == 0:
        segment.array()[:] = 7
        os._exit(0)
    os.waitpid(child, 0)
    assert segment.array().tolist() == [7] * 10

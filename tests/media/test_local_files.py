import os
from contextlib import suppress

import pytest

from foveal.errors import FetchFailed, HostNotAllowed, MediaError, MediaTooLarge
from foveal.media import local_files
from foveal.media.local_files import read_file_url

MANY = 1 << 20


@pytest.fixture
def tree(tmp_path):
    """A directory that is allowed, beside one that is not."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "sub" / "deep", outside):
        folder.mkdir(parents=True)
    (root / "a.png").write_bytes(b"inside")
    (root / "sub" / "ä #%.png").write_bytes(b"odd name")
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "root-beside").write_bytes(b"secret")
    return root


def read(path, root, limit=MANY):
    return read_file_url(f"file://{path}", str(root), limit)


def test_files_below_the_root(tree):
    assert read(tree / "a.png", tree) == b"inside"
    assert read(tree / "sub" / "deep" / ".." / ".." / "." / "a.png", tree) == b"inside"
    assert read(f"/{tree}//sub///%C3%A4%20%23%25.png?query#fragment", tree) == b"odd name"
    assert read_file_url(f" FILE://LocalHost{tree}/a.png ", str(tree), MANY) == b"inside"
    assert read(tree / "a.png", "/") == b"inside"
    assert read(tree / "a.png", f"{tree}/sub/..//") == b"inside"


def test_no_root_reads_nothing(tree):
    with pytest.raises(HostNotAllowed, match=r"no directory is set for them \(.*, FOVEAL_FETCH_FILE_ROOT\)"):
        read_file_url(f"file://{tree}/a.png", None, MANY)


@pytest.mark.parametrize(
    "path",
    [
        "{root}/../outside/secret",
        "{root}/sub/../../outside/secret",
        "{root}/%2e%2e/outside/secret",
        "{root}/..%2Foutside%2Fsecret",
        "{root}/../root/a.png",
        "{root}-beside",
        "{root}/link",
        "{root}/sub/link",
        "{root}/folder/secret",
        "{root}/chain",
        "{root}/up/secret",
        "/etc/passwd",
        "/",
        "/../../../../etc/passwd",
    ],
)
def test_nothing_leads_out(tree, path):
    outside = tree.parent / "outside"
    (tree / "link").symlink_to(outside / "secret")
    (tree / "sub" / "link").symlink_to("../../outside/secret")
    (tree / "folder").symlink_to(outside)
    (tree / "chain").symlink_to("sub/link")
    (tree / "up").symlink_to("sub/deep/../../../outside")
    with pytest.raises(HostNotAllowed, match="leads out of the directory") as caught:
        read(path.format(root=tree), tree)
    assert str(tree.parent) not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_links_inside_are_followed(tree):
    (tree / "relative").symlink_to("sub/../a.png")
    (tree / "absolute").symlink_to(tree / "a.png")
    (tree / "sub" / "folder").symlink_to("..")
    (tree / "again").symlink_to("sub/folder/absolute")
    real = tree.rename(tree.parent / "real")
    tree.symlink_to(real)
    for name in ("relative", "absolute", "sub/folder/a.png", "again", "sub/folder/sub/folder/relative"):
        assert read(tree / name, tree) == b"inside"
        assert read(real / name, tree) == b"inside"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent.png", "no such file"),
        ("a.png/b", "not a directory"),
        ("sub", "regular file"),
        ("", "regular file"),
        ("sub/..", "regular file"),
        ("pipe", "regular file"),
        ("loop", "too many symbolic links"),
        ("x" * 300, "name too long"),
        ("x/" * 3000, "no valid path"),
        ("%00", "no valid path"),
        ("\ud800", "no valid path"),
    ],
)
def test_what_cannot_be_read(tree, name, text):
    os.mkfifo(tree / "pipe")
    (tree / "loop").symlink_to("loop")
    with pytest.raises(FetchFailed, match=text) as caught:
        read(f"{tree}/{name}", tree)
    assert str(tree) not in str(caught.value)


def test_urls_without_a_path(tree):
    for url in ("file://", "file://localhost", "file://?x"):
        with pytest.raises(FetchFailed, match="no valid path"):
            read_file_url(url, str(tree), MANY)
    for url in (f"file://host{tree}/a.png", f"file://a@localhost{tree}/a.png"):
        with pytest.raises(HostNotAllowed, match="names a host"):
            read_file_url(url, str(tree), MANY)


def test_the_limit_is_exact(tree):
    assert read(tree / "a.png", tree, 6) == b"inside"
    with pytest.raises(MediaTooLarge, match=r"6 bytes, more than the limit of 5 \(Limits.input_bytes\)"):
        read(tree / "a.png", tree, 5)
    with (tree / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(MediaTooLarge):
        read(tree / "sparse", tree, 1 << 30)


@pytest.mark.parametrize("place", ["a.png", "sub"])
def test_a_link_that_appears_after_the_look_is_not_followed(tree, monkeypatch, place):
    def look(name, *, dir_fd):
        if name == place.encode():
            os.rename(tree / place, tree / "moved")
            os.symlink(tree.parent / "outside", tree / place)
        raise OSError

    monkeypatch.setattr(local_files.os, "readlink", look)
    with pytest.raises(FetchFailed):
        read(tree / place / "secret" if place == "sub" else tree / place, tree)


def test_a_file_that_changes_is_refused(tree, monkeypatch):
    status = os.fstat

    def grow(descriptor):
        found = status(descriptor)
        with (tree / "a.png").open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(local_files.os, "fstat", grow)
    with pytest.raises(FetchFailed, match="changed while it was read"):
        read(tree / "a.png", tree)
    with pytest.raises(MediaTooLarge):
        read(tree / "a.png", tree, 10)


def test_no_descriptor_stays_open(tree):
    def held():
        return len(os.listdir("/proc/self/fd"))

    (tree / "loop").symlink_to("loop")
    before = held()
    for name in ("a.png", "absent", "sub", "sub/../..", "loop", "sub/deep/x"):
        with suppress(MediaError):
            read(f"{tree}/{name}", tree)
    assert held() == before


def test_a_root_that_is_gone(tmp_path):
    said = (
        "the directory that file URLs are read from cannot be opened: no such file or directory "
        "(FetchSettings.file_root, FOVEAL_FETCH_FILE_ROOT)"
    )
    for path in (tmp_path / "gone" / "a.png", "/elsewhere/a.png"):
        with pytest.raises(FetchFailed) as caught:
            read(path, tmp_path / "gone")
        assert str(caught.value) == said

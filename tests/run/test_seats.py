"""Seats: no more threads than CPUs, in one process and in several."""

import os
import subprocess
import sys
import tempfile

import pytest

from foveal.run import seats
from foveal.run.seats import Seats


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch, tmp_path):
    monkeypatch.setattr(seats, "cpu_count", lambda: 4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


class Owner:
    pass


def test_a_process_takes_no_more_than_its_limit():
    ours, one, other = Seats(), Owner(), Owner()
    first = ours.take(one, 2, 3, False)
    assert len(first) == 2
    second = ours.take(other, 2, 3, False)
    assert len(second) == 1
    assert not set(first) & set(second)
    assert ours.take(other, 1, 3, False) == []
    ours.leave(one)
    assert len(ours.take(other, 5, 3, False)) == 2


def test_two_processes_take_no_more_than_there_are():
    """Locks belong to the open file, so two sets of seats of one process are as those of two."""
    ours, theirs, owner = Seats(), Seats(), Owner()
    first, second = ours.take(owner, 3, 4, True), theirs.take(owner, 3, 4, True)
    assert (len(first), len(second)) == (3, 1)
    assert not set(first) & set(second)
    ours.leave(owner)
    assert len(theirs.take(owner, 4, 4, True)) == 3
    assert ours.take(owner, 1, 4, True) == []


def test_who_does_not_share_takes_them_all_the_same():
    ours, theirs, owner = Seats(), Seats(), Owner()
    ours.take(owner, 4, 4, True)
    assert len(theirs.take(owner, 4, 4, False)) == 4


def test_seats_whose_owner_is_no_more_are_free():
    """As where an interrupt comes before they can be given back."""
    ours, theirs, owner = Seats(), Seats(), Owner()
    assert len(ours.take(Owner(), 3, 4, True)) == 3
    ours.take(owner, 1, 4, True)
    assert len(theirs.take(owner, 4, 4, True)) == 3


def test_a_process_that_ends_leaves_its_seats():
    program = (
        "import os, sys, tempfile\n"
        f"tempfile.tempdir = {tempfile.tempdir!r}\n"
        "from foveal.run import seats\n"
        "seats.cpu_count = lambda: 4\n"
        "print(len(seats.Seats().take(sys, 4, 4, True)), flush=True)\n"
        "sys.stdin.read()\n"
        "os._exit(9)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "4\n"
        ours, owner = Seats(), Owner()
        assert ours.take(owner, 1, 4, True) == []
        other.stdin.close()
        other.wait(60)
    assert len(ours.take(owner, 4, 4, True)) == 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_seat_of_its_parent():
    ours, owner = Seats(), Owner()
    ours.take(owner, 3, 4, True)
    child = os.fork()
    if child == 0:
        ours.forget()
        ours.leave(owner)
        os._exit(len(ours.take(owner, 4, 4, True)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert len(ours.take(owner, 4, 4, True)) == 1
    assert Seats().take(owner, 1, 4, True) == []


def test_a_child_bears_that_the_program_closed_its_file():
    ours, owner = Seats(), Owner()
    ours.take(owner, 1, 4, True)
    os.close(ours._file)
    ours.forget()
    assert len(ours.take(owner, 4, 4, True)) == 4


def test_a_caller_without_a_seat_has_the_one_that_a_helper_gives_up():
    ours, caller, helper, standing, other = Seats(), Owner(), Owner(), Owner(), Owner()
    ours.take_or_stand(caller, 2, False)
    seat = ours.take(helper, 1, 2, False)
    assert not ours.hand_over(helper)
    ours.take_or_stand(standing, 2, False)
    assert ours.hand_over(helper)
    assert not ours.hand_over(caller)
    ours.leave(helper)
    assert ours.take(other, 2, 2, False) == []
    ours.leave(standing)
    assert ours.take(other, 2, 2, False) == seat


def test_a_caller_who_has_left_does_not_stand():
    ours, helper, standing = Seats(), Owner(), Owner()
    ours.take(helper, 1, 1, False)
    ours.take_or_stand(standing, 1, False)
    ours.leave(standing)
    ours.take_or_stand(Owner(), 1, False)
    assert not ours.hand_over(helper)


def test_without_a_directory_of_its_own_each_process_counts_for_itself(monkeypatch, tmp_path):
    (tmp_path / f"foveal-{os.getuid()}").write_text("")
    ours, theirs, owner = Seats(), Seats(), Owner()
    assert len(ours.take(owner, 4, 4, True)) == len(theirs.take(owner, 4, 4, True)) == 4


def test_without_a_temporary_directory_each_process_counts_for_itself(monkeypatch):
    def refuse():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    owner = Owner()
    assert len(Seats().take(owner, 4, 4, True)) == 4

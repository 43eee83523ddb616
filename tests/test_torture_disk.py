"""The model of a disk loses unsynced data as disks do, and nothing that a disk must keep."""

import itertools
from pathlib import Path
from random import Random

import pytest
from torture import power_loss, shim
from torture.disk import EVERYTHING, HOLES, NAMES_ONLY, NOTHING, SECTOR, Disk, Image, luck_of
from torture.fault import Call, Kind
from torture.recorded import calls

NEW, PART = b"n" * 3 * SECTOR, b"p" * 100


def disk(*calls: Call) -> Disk:
    drive = Disk()
    for call in calls:
        drive.make(call)
    return drive


def created(path: str, data: bytes = NEW) -> list[Call]:
    return [Call(Kind.CREATE, path), Call(Kind.WRITE, path, data=data)]


def images(disk: Disk, count: int = 300) -> list[Image]:
    chance = Random(1)
    return [disk.after(luck_of(chance), chance) for _ in range(count)]


def after(disk: Disk, luck=NOTHING) -> Image:
    return disk.after(luck, Random(1))


SYNC = Call(Kind.SYNC, "/a")
SYNC_ROOT = Call(Kind.SYNC, "")


def test_what_was_synced_with_its_name_is_in_every_image():
    drive = disk(*created("/a"), SYNC, SYNC_ROOT)
    assert all(image == {"/a": NEW} for image in [*images(drive, 20), after(drive)])


def test_a_file_that_was_synced_is_lost_without_its_folder():
    drive = disk(*created("/a"), SYNC)
    assert after(drive) == {} and after(drive, EVERYTHING) == {"/a": NEW}
    folder = disk(Call(Kind.MAKE, "/f"), *created("/f/a"), Call(Kind.SYNC, "/f/a"))
    folder.make(Call(Kind.SYNC, "/f"))
    assert after(folder) == {}


def test_a_file_renamed_before_it_was_synced_may_be_empty_or_hold_a_part():
    drive = disk(*created("/a"), Call(Kind.RENAME, "/a", "/b"))
    assert after(drive, NAMES_ONLY) == {"/b": b""}
    assert after(drive, HOLES) == {"/b": bytes(len(NEW))}
    contents = {image["/b"] for image in images(drive) if "/b" in image}
    assert {b"", NEW} < contents and any(0 < len(data) < len(NEW) for data in contents if data)


def test_a_write_over_old_bytes_leaves_each_sector_old_new_or_torn():
    old = bytes(len(NEW))
    drive = disk(*created("/a", old), SYNC, SYNC_ROOT, Call(Kind.WRITE, "/a", data=NEW))
    contents = [image["/a"] or b"" for image in images(drive)]
    assert all(len(data) == len(old) for data in contents)
    sectors = {data[at : at + SECTOR] for data in contents for at in range(0, len(old), SECTOR)}
    assert {NEW[:SECTOR], old[:SECTOR]} < sectors  # torn ones, too
    assert all(sector.lstrip(b"n").strip(b"\0") == b"" for sector in sectors)


def test_a_file_cut_short_and_not_synced_may_be_as_long_as_it_was():
    drive = disk(*created("/a"), SYNC, SYNC_ROOT, Call(Kind.TRUNCATE, "/a", place=0))
    assert after(drive) == {"/a": NEW} and after(drive, EVERYTHING) == {"/a": b""}


def test_a_rename_to_another_folder_happens_whole_or_not_at_all():
    drive = disk(
        *[Call(Kind.MAKE, path) for path in ("/f", "/g")],
        *created("/f/a"),
        *[Call(Kind.SYNC, path) for path in ("/f/a", "/f", "")],
        Call(Kind.RENAME, "/f/a", "/g/a"),
        *created("/g/b"),
    )
    places = [("/f/a" in image, "/g/a" in image) for image in images(drive)]
    assert set(places) == {(True, False), (False, True)}
    drive.make(Call(Kind.SYNC, "/f"))  # syncing the old folder keeps the file in the new one
    assert after(drive) == {"/f": None, "/g": None, "/g/a": NEW}


def test_of_a_folders_changes_the_first_few_are_there_or_any():
    drive = disk(*itertools.chain.from_iterable(created(f"/{name}") for name in "abc"))
    there = {"".join(sorted(path[1:] for path in image)) for image in images(drive)}
    assert {"", "a", "ab", "abc", "b", "c", "bc", "ac"} == there


def test_what_was_deleted_and_not_synced_may_be_there_again():
    drive = disk(*created("/a"), SYNC, SYNC_ROOT, Call(Kind.REMOVE, "/a"))
    assert after(drive) == {"/a": NEW} and after(drive, EVERYTHING) == {}


def test_a_write_to_a_file_without_a_name_is_of_no_interest():
    drive = disk(*created("/a"), Call(Kind.REMOVE, "/a"))
    drive.make(Call(Kind.WRITE, "/a (deleted)", data=PART))
    assert after(drive, EVERYTHING) == {}


@pytest.mark.skipif(not shim.is_possible(), reason="the shim needs Linux and a C compiler")
def test_with_all_luck_the_image_is_what_the_program_left(tmp_path: Path):
    recorded = calls("make", tmp_path)
    contents = {
        path.relative_to(tmp_path / "disk"): None if path.is_dir() else path.read_bytes()
        for path in (tmp_path / "disk").rglob("*")
    }
    image = after(disk(*recorded), EVERYTHING)
    assert {Path(path[1:]): data for path, data in image.items()} == contents
    some = [list(power_loss.cuts(recorded, 50)) for _ in range(2)]
    assert some[0] == some[1] and len(some[0]) >= 40

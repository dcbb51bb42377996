"""The last good catalog on disk: whole or not at all, and only as this master key wrote it."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path

import msgspec
import pytest

from relay_gateway.catalog.build import SavedRows
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.secret import Secret
from relay_gateway.server import last_good
from relay_gateway.server.last_good import LastGoodError, LastGoodFile, LastGoodKeeper
from relay_gateway.testing.instances import until

ROWS = [
    EntityRow(
        id=f"id-{index}", kind="host", slug=f"h{index}", display_name="H\n\u2028", spec={"a": 1}
    )
    for index in range(1200)
]
SAVED = SavedRows(7, [msgspec.json.encode(row) for row in ROWS], {"routing": {"maxAttempts": 4}})


def new_key() -> Secret:
    return Secret(base64.b64encode(os.urandom(32)).decode())


@pytest.fixture
def key() -> Secret:
    return new_key()


@pytest.fixture
def file(tmp_path: Path, key: Secret) -> LastGoodFile:
    return LastGoodFile(tmp_path, [key])


def test_what_was_written_is_read(file: LastGoodFile, tmp_path: Path) -> None:
    assert file.read() is None
    file.write(SAVED, 100.5)
    saved = file.read()
    assert saved is not None
    assert (saved.revision, list(saved.rows), saved.confirmed_at) == (7, ROWS, 100.5)
    assert saved.settings == SAVED.settings
    assert [path.name for path in tmp_path.iterdir()] == ["last-good"]
    assert stat.S_IMODE((tmp_path / "last-good").stat().st_mode) == 0o600


def test_a_confirmation_makes_it_younger(file: LastGoodFile) -> None:
    file.write(SAVED, 100.0)
    file.confirm(160.25)
    saved = file.read()
    assert saved is not None
    assert saved.confirmed_at == 160.25


def test_a_confirmation_of_another_catalog_does_not_count(file: LastGoodFile) -> None:
    file.write(SAVED, 100.0)
    file.confirm(900.0)
    file.write(SavedRows(8, SAVED.rows, {}), 200.0)
    saved = file.read()
    assert saved is not None
    assert saved.confirmed_at == 200.0


def test_the_same_content_is_not_written_twice(file: LastGoodFile, tmp_path: Path) -> None:
    file.write(SAVED, 100.0)
    before = (tmp_path / "last-good").stat().st_ino
    file.write(SAVED, 150.0)
    assert (tmp_path / "last-good").stat().st_ino == before
    saved = file.read()
    assert saved is not None
    assert saved.confirmed_at == 150.0


@pytest.mark.parametrize("position", [0, 40, 64, 66, 120, 5000, -2])
def test_any_changed_byte_is_found(file: LastGoodFile, tmp_path: Path, position: int) -> None:
    file.write(SAVED, 100.0)
    path = tmp_path / "last-good"
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(LastGoodError, match="was changed"):
        file.read()


@pytest.mark.parametrize("kept", [0, 10, 65, 500])
def test_a_part_of_it_is_not_used(file: LastGoodFile, tmp_path: Path, kept: int) -> None:
    file.write(SAVED, 100.0)
    path = tmp_path / "last-good"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(LastGoodError):
        file.read()


def test_a_forged_confirmation_is_ignored(file: LastGoodFile, tmp_path: Path) -> None:
    file.write(SAVED, 100.0)
    file.confirm(160.0)
    path = tmp_path / "last-good-confirmed"
    path.write_bytes(path.read_bytes().replace(b"160.0", b"960.0"))
    saved = file.read()
    assert saved is not None
    assert saved.confirmed_at == 100.0


def test_a_key_that_has_become_an_older_one_still_reads(
    file: LastGoodFile, tmp_path: Path, key: Secret
) -> None:
    file.write(SAVED, 100.0)
    assert LastGoodFile(tmp_path, [new_key(), key]).read() is not None
    with pytest.raises(LastGoodError):
        LastGoodFile(tmp_path, [new_key()]).read()


def test_without_a_master_key_nothing_is_read(file: LastGoodFile, tmp_path: Path) -> None:
    file.write(SAVED, 100.0)
    without = LastGoodFile(tmp_path, [])
    assert not without.possible
    assert without.read() is None


def test_another_format_is_refused(file: LastGoodFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(last_good, "FORMAT", 2)
        file.write(SAVED, 100.0)
    with pytest.raises(LastGoodError, match="another version"):
        file.read()


def test_a_failed_write_leaves_the_former_file_and_nothing_else(
    file: LastGoodFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write(SAVED, 100.0)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            file.write(SavedRows(8, [], {}), 200.0)
    saved = file.read()
    assert saved is not None
    assert saved.revision == 7
    assert [path.name for path in tmp_path.iterdir()] == ["last-good"]


class Counted(LastGoodFile):
    """Counts writes."""

    def __init__(self, directory: Path, keys: list[Secret]) -> None:
        super().__init__(directory, keys)
        self.writes = 0
        self.full = False

    def write(self, saved: SavedRows, at: float) -> None:
        self.writes += 1
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(saved, at)


async def test_many_changes_are_few_writes_and_the_last_is_written_at_the_end(
    tmp_path: Path, key: Secret
) -> None:
    file = Counted(tmp_path, [key])
    revision = 0
    keeper = LastGoodKeeper(file, lambda: SavedRows(revision, [], {}))
    keeper.start()
    for revision in range(1, 200):
        keeper.changed()
        keeper.confirmed(float(revision))
        await asyncio.sleep(0)
    await until(lambda: file.writes)
    await keeper.aclose()
    assert file.writes <= 3
    saved = file.read()
    assert saved is not None
    assert saved.revision == 199


async def test_a_full_disk_is_reported_and_written_later(
    tmp_path: Path, key: Secret, caplog: pytest.LogCaptureFixture
) -> None:
    file = Counted(tmp_path, [key])
    file.full = True
    keeper = LastGoodKeeper(file, lambda: SAVED)
    keeper.start()
    keeper.changed()
    await until(lambda: "No space left" in caplog.text)
    file.full = False
    await keeper.aclose()
    assert file.read() is not None


async def test_without_a_master_key_it_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = LastGoodFile(tmp_path, [])
    keeper = LastGoodKeeper(file, lambda: SAVED)
    keeper.start()
    keeper.changed()
    await keeper.aclose()
    assert "no master key" in caplog.text
    assert not file.exists


def test_t63_after_a_rotation_the_same_content_is_signed_with_the_new_key(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    LastGoodFile(tmp_path, [old]).write(SAVED, 100.0)
    both = LastGoodFile(tmp_path, [new, old])
    assert both.read() is not None
    both.write(SAVED, 200.0)
    alone = LastGoodFile(tmp_path, [new]).read()
    assert alone is not None
    assert (alone.revision, alone.confirmed_at) == (7, 200.0)
    with pytest.raises(LastGoodError, match="not written with this master key"):
        LastGoodFile(tmp_path, [old]).read()

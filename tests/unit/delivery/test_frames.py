"""Frames survive what is done to the bytes around them."""

from __future__ import annotations

import pytest

from relay_gateway.delivery.frames import Frame, FrameKind, frame_of, scan

SALT = 0x1234_5678


def segment_of(count: int, size: int = 40) -> bytes:
    bodies = (bytes([65 + index % 26]) * size for index in range(count))
    return b"".join(
        frame_of(FrameKind.RECORD, number, body, SALT) for number, body in enumerate(bodies, 1)
    )


def numbers(data: bytes, salt: int = SALT) -> list[int]:
    return [frame.number for frame in scan(data, salt, len(data)).frames]


def test_frames_come_back_as_they_were_written() -> None:
    data = frame_of(FrameKind.ROUTE, 0, b"", SALT) + frame_of(FrameKind.RECORD, 7, b"body", SALT)
    found = scan(data, SALT, len(data))
    assert found.frames == [Frame(FrameKind.ROUTE, 0, b""), Frame(FrameKind.RECORD, 7, b"body")]
    assert (found.end, found.whole, found.damaged) == (len(data), len(data), 0)


def test_f21_whichever_byte_is_flipped_only_its_record_is_lost() -> None:
    data = segment_of(100)
    length = len(data) // 100
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        found = scan(bytes(changed), SALT, len(data))
        assert [frame.number for frame in found.frames] == [
            number for number in range(1, 101) if number != place // length + 1
        ], place
        assert (found.damaged, found.end) == (1, len(data)), place


def test_f21_a_torn_end_is_told_from_what_is_whole() -> None:
    data = segment_of(3)
    length = len(data) // 3
    for cut in range(2 * length + 1, 3 * length):
        found = scan(data[:cut], SALT, cut)
        assert [frame.number for frame in found.frames] == [1, 2]
        assert (found.whole, found.end, found.damaged) == (2 * length, cut, 1), cut


def test_pieces_of_any_size_make_the_same_whole() -> None:
    data = bytearray(segment_of(20))
    data[150] ^= 1
    for size in range(70, 200):
        at, broken, damaged, seen = 0, False, 0, list[int]()
        while at < len(data):
            found = scan(bytes(data[at : at + size]), SALT, len(data) - at, broken=broken)
            assert found.end > 0
            seen += [frame.number for frame in found.frames]
            at, broken, damaged = at + found.end, found.broken, damaged + found.damaged
        assert (seen, damaged) == ([1, 2, *range(4, 21)], 1), size


def test_no_body_passes_for_a_frame() -> None:
    inside = frame_of(FrameKind.RECORD, 666, b"forged", SALT + 1)
    data = frame_of(FrameKind.RECORD, 1, b"<" + inside + b">", SALT)
    assert numbers(data) == [1]
    assert numbers(data[:-1]) == []


@pytest.mark.parametrize("data", [b"", b"\xf5", b"\xf5\xc1RG", b"\x00" * 50])
def test_what_is_no_frame_has_an_end(data: bytes) -> None:
    found = scan(data, SALT, len(data))
    assert (found.frames, found.end) == ([], len(data))

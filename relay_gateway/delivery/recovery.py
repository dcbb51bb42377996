"""Taking over the spool of a process that is gone: torn ends cut off, requests that it did not live
to finish accounted for."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from relay_gateway.delivery.acknowledged import read_acknowledged
from relay_gateway.delivery.directories import Claim
from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.frames import Frame, FrameKind, frame_of, needed, scan
from relay_gateway.delivery.opened import Opened, interrupted
from relay_gateway.delivery.reading import PIECE_BYTES
from relay_gateway.delivery.segments import Route, Segment, new_segment, segments_named
from relay_gateway.delivery.stream import Stream
from relay_gateway.plugin.payloads import PayloadRecord
from relay_gateway.plugin.usage import UsageRecord

_log = logging.getLogger(__name__)


class _Named(msgspec.Struct, rename="camel"):
    """As much of a record as it takes to know which request it is of."""

    request_id: str


class _Findings(msgspec.Struct):
    """What is in the segments of a stream."""

    last: int = 0
    """The highest number of a record."""
    number: int = 0
    """The highest number that was given, as far as is known."""
    sinks: dict[str, None] = msgspec.field(default_factory=dict)
    route: Route = msgspec.field(default_factory=Route)
    opened: dict[str, bytes] = msgspec.field(default_factory=dict)
    damaged: int = 0


class Orphan(msgspec.Struct, eq=False):
    """The spool of a process that is gone, for delivery. ``sinks`` are all that records in it are
    routed to."""

    claim: Claim
    usage: Stream[UsageRecord]
    payloads: Stream[PayloadRecord]
    usage_sinks: tuple[str, ...]
    payload_loggers: tuple[str, ...]
    interrupted: int = 0

    @property
    def delivered(self) -> bool:
        """Whether nobody wants anything of it any more."""
        return not self.usage.readers and not self.payloads.readers


def recover(claim: Claim, disk: Disk) -> Orphan:
    """Reads what is there and completes it. Blocks. Raises :class:`OSError`, and may then be called
    again: nothing is done twice."""
    names = disk.names(claim.path)
    usage = Stream(claim.spool, "usage", msgspec.msgpack.Decoder(UsageRecord).decode)
    payloads = Stream(claim.spool, "payload", msgspec.msgpack.Decoder(PayloadRecord).decode)
    positions = read_acknowledged(disk, claim.path)
    found = _look(usage, segments_named(claim.path, names, "usage"), disk)
    found_payloads = _look(payloads, segments_named(claim.path, names, "payload"), disk)
    if found.opened:
        _complete(usage, found, claim.path, disk)
    for stream, findings in ((usage, found), (payloads, found_payloads)):
        stream.number = findings.last
        stream.damaged = findings.damaged
        stream.acknowledged = positions.get(stream.kind, {})
        if findings.damaged:
            _log.error("spool %s: %d damaged places are passed over", claim.path, findings.damaged)
    return Orphan(
        claim, usage, payloads, tuple(found.sinks), tuple(found_payloads.sinks), len(found.opened)
    )


def _look(
    stream: Stream[UsageRecord] | Stream[PayloadRecord], segments: list[Segment], disk: Disk
) -> _Findings:
    findings = _Findings()
    for segment in segments:
        _look_into(segment, findings, disk, ids=stream.kind == "usage")
        segment.last = findings.last
        stream.segments.append(segment)
    return findings


def _look_into(segment: Segment, findings: _Findings, disk: Disk, *, ids: bool) -> None:
    """Takes in one segment, a piece at a time; what is no frame at its end is cut off."""
    size, at, whole, broken = disk.size(segment.path), 0, 0, False
    damaged = 0
    while at < size:
        data = disk.read(segment.path, at, min(PIECE_BYTES, size - at))
        if len(data) < needed(data) <= size - at:
            data = disk.read(segment.path, at, needed(data))
        found = scan(data, segment.salt, size - at, broken=broken)
        for frame in found.frames:
            try:
                _take(frame, segment, findings, ids=ids)
            except (msgspec.DecodeError, msgspec.ValidationError):
                damaged += 1  # whole, but not what this version writes
        whole, damaged = (at + found.whole if found.frames else whole), damaged + found.damaged
        at, broken = (size if len(data) in (0, size - at) else at + found.end), found.broken
    if whole < size:
        _log.warning("spool %s: a torn end of %d bytes is cut off", segment.path, size - whole)
        disk.truncate(segment.path, whole)
        damaged -= 1
    segment.size = whole
    findings.damaged += damaged


def _take(frame: Frame, segment: Segment, findings: _Findings, *, ids: bool) -> None:
    kind, number, body = frame
    if kind == FrameKind.ROUTE:
        findings.route = msgspec.msgpack.decode(body, type=Route)
        findings.number = max(findings.number, number)
    elif kind == FrameKind.OPENED:
        findings.opened[_OPENED.decode(body).request_id] = body
    else:
        if number > findings.last:
            findings.last = number
            segment.records += 1
            findings.sinks.update(dict.fromkeys(findings.route.sinks))
        if ids and findings.opened:
            findings.opened.pop(_NAMED.decode(body).request_id, None)


_NAMED = msgspec.msgpack.Decoder(_Named)
_OPENED = msgspec.msgpack.Decoder(Opened)


def _complete(
    stream: Stream[UsageRecord], findings: _Findings, directory: Path, disk: Disk
) -> None:
    """Adds the records of requests that have none, in a segment of their own."""
    route = findings.route
    sequence = stream.segments[-1].sequence + 1
    segment = new_segment(directory, stream.kind, sequence)
    parts = [frame_of(FrameKind.ROUTE, 0, msgspec.msgpack.encode(route), segment.salt)]
    findings.last = max(findings.last, findings.number)
    for body in findings.opened.values():
        findings.last += 1
        record = interrupted(msgspec.msgpack.decode(body, type=Opened), route.instance)
        encoded = msgspec.msgpack.encode(record)
        parts.append(frame_of(FrameKind.RECORD, findings.last, encoded, segment.salt))
    findings.sinks.update(dict.fromkeys(route.sinks))
    data = b"".join(parts)
    descriptor = disk.create(segment.path)
    try:
        if disk.write(descriptor, data) != len(data):
            raise OSError(f"{segment.path} was not written whole")
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    segment.size, segment.last, segment.records = len(data), findings.last, len(findings.opened)
    stream.segments.append(segment)

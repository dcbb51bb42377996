"""What sinks have acknowledged, as a small file beside the segments.

It may be older than the truth: records then come again, and sinks know them by request id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from relay_gateway.delivery.directories import ACKNOWLEDGED
from relay_gateway.delivery.disk import Disk

Positions = dict[str, dict[str, int]]
"""Kind of stream → sink → the highest number that it has taken."""

_log = logging.getLogger(__name__)


def read_acknowledged(disk: Disk, directory: Path) -> Positions:
    """What the file says; nothing where it is missing or damaged."""
    path = directory / ACKNOWLEDGED
    try:
        return msgspec.json.decode(disk.read(path, 0, disk.size(path)), type=Positions)
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, msgspec.ValidationError, OSError) as error:
        _log.warning("%s cannot be read: %s; its records are delivered again", path, error)
        return {}


def write_acknowledged(
    disk: Disk, directory: Path, positions: Mapping[str, Mapping[str, int]]
) -> None:
    """Writes the file anew. Raises :class:`OSError`."""
    disk.write_file(directory / ACKNOWLEDGED, msgspec.json.encode(positions))

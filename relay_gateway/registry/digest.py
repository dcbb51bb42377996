"""The digest of an installed distribution: of what its files have in them now."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import Distribution
from pathlib import PurePath

PREFIX = "sha256:"
_OF_THE_INSTALLER = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files in which installations of one and the same wheel differ."""


def digest_of(distribution: Distribution) -> str | None:
    """``sha256:`` and the digest over path and content of each file, in the order of paths.

    ``None`` where the files are not all there to be read, and for an editable installation, whose
    code lies elsewhere.
    """
    files = distribution.files
    if not files or _is_editable(distribution):
        return None
    total = hashlib.sha256()
    try:
        for file in sorted(file for file in files if _counts(file)):
            content = hashlib.sha256(file.locate().read_bytes()).hexdigest()  # type: ignore[attr-defined]  # a Path
            total.update(f"{file} {content}\n".encode())
    except OSError:
        return None
    return PREFIX + total.hexdigest()


def _counts(file: PurePath) -> bool:
    return file.suffix != ".pyc" and not (
        file.parent.suffix == ".dist-info" and file.name in _OF_THE_INSTALLER
    )


def _is_editable(distribution: Distribution) -> bool:
    try:
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(url.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return True

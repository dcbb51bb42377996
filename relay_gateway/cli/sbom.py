"""A bill of materials of what plugins bring into the process, as CycloneDX 1.6 JSON.

Source: the CycloneDX 1.6 specification (ECMA-424) for the shape, the "Recording installed projects"
specification of Python for the hashes.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from relay_gateway import __version__

CORE = "relay-gateway"
MAX_DISTRIBUTIONS = 2000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def sbom(plugins: Sequence[Distribution]) -> dict[str, Any]:
    """The gateway, the distributions of ``plugins`` with the hash of each of their files, and all
    that is installed of what these require."""
    ours = {_canonical(one.name): one for one in plugins}
    every = _closure([CORE, *ours])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "name": CORE, "version": __version__},
        },
        "components": [_component(one, files=name in ours) for name, one in every.items()],
        "dependencies": [
            {"ref": _reference(one), "dependsOn": _wanted_of(one, every)} for one in every.values()
        ],
    }


def _closure(names: Sequence[str]) -> dict[str, Distribution]:
    """What is installed of ``names`` and of all they require, by canonical name."""
    found: dict[str, Distribution] = {}
    waiting = [_canonical(name) for name in names]
    while waiting and len(found) < MAX_DISTRIBUTIONS:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra or a platform that is not in use
        waiting += _required(found[name])
    return dict(sorted(found.items()))


def _required(one: Distribution) -> list[str]:
    matches = (_NAME.match(line) for line in one.requires or () if "extra ==" not in line)
    return [_canonical(match[0]) for match in matches if match is not None]


def _wanted_of(one: Distribution, every: dict[str, Distribution]) -> list[str]:
    return sorted({_reference(every[name]) for name in _required(one) if name in every})


def _component(one: Distribution, *, files: bool) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(one),
        "name": one.name,
        "version": one.version,
        "purl": _reference(one),
    }
    licence = _licence(one)
    if licence:
        component["licenses"] = [licence]
    if files:
        component["components"] = list(_files(one))
    return component


def _reference(one: Distribution) -> str:
    return f"pkg:pypi/{_canonical(one.name)}@{one.version}"


def _licence(one: Distribution) -> dict[str, Any] | None:
    """The licence as the metadata has it: an expression, or else words."""
    expression = _field(one, "License-Expression")
    if expression:
        return {"expression": expression}
    words = _field(one, "License")
    classifiers = one.metadata.get_all("Classifier") or []
    named = [each.rpartition(":: ")[2] for each in classifiers if each.startswith("License ::")]
    if words and "\n" not in words:
        return {"license": {"name": words}}
    return {"license": {"name": named[0]}} if named else None


def _field(one: Distribution, name: str) -> str:
    found = one.metadata.get_all(name) or [""]
    return str(found[0]).strip()


def _files(one: Distribution) -> Iterator[dict[str, Any]]:
    """The files that ``RECORD`` has hashes of."""
    for file in one.files or ():
        if file.hash is None or file.hash.mode != "sha256":
            continue
        try:
            digest = base64.urlsafe_b64decode(file.hash.value + "==").hex()
        except (binascii.Error, ValueError):
            continue
        hashes = [{"alg": "SHA-256", "content": digest}]
        yield {"type": "file", "name": str(file), "hashes": hashes}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

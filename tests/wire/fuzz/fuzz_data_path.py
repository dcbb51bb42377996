"""Coverage-guided runs over the same judges: ``fuzz_data_path.py http|json`` and libFuzzer's
options. A finding ends the process with another status than zero."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["relay_gateway"]):
    from relay_gateway.testing import json_reference, mutation
    from relay_gateway.testing.json_judge import judge_body
    from relay_gateway.testing.probes import ACCEPTED, REFUSED
    from relay_gateway.testing.wire_judge import judge, read_by_h11, read_by_us

LONGEST_SEED = 600

_loop = asyncio.new_event_loop()


def http(data: bytes) -> None:
    """The last byte says where the others are cut in two; a sound request follows them."""
    if not data:
        return
    request = data[:-1] + mutation.LAST
    at = data[-1] * len(data) // 256
    pieces = [piece for piece in (request[:at], request[at:]) if piece]
    verdict = _loop.run_until_complete(read_by_us(pieces))
    judge(verdict, read_by_h11(request))


def json(data: bytes) -> None:
    """All of it is a body."""
    judge_body(data)


@dataclass(frozen=True, slots=True)
class Target:
    """What is run, with what to begin and what to put in."""

    run: Callable[[bytes], None]
    seeds: Iterable[bytes]
    words: Iterable[bytes]


TARGETS = {
    "http": Target(
        http,
        [one.data + b"x" for one in ACCEPTED + REFUSED if len(one.data) < LONGEST_SEED],
        mutation.TOKENS,
    ),
    "json": Target(json, json_reference.SEEDS, json_reference.TOKENS),
}


def main() -> None:
    """Runs until libFuzzer has had enough."""
    target = TARGETS[sys.argv.pop(1)]
    directory = Path(tempfile.mkdtemp(prefix="fuzz-"))
    corpus = directory / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(seed)
    lines = ('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in target.words)
    words = directory / "words"
    words.write_text("\n".join(lines) + "\n")
    options = [f"-dict={words}", f"-artifact_prefix={directory}/", str(corpus)]
    atheris.Setup([*sys.argv, *options], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

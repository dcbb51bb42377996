"""What a request body says, read the slow and plain way: the model that the quick reader is held
against. Also bodies changed at random, out of a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final

MAX_MODEL_BYTES: Final = 256
_MOST_CHANGES = 4

SEEDS: Final = (
    b'{"model":"m","stream":true}',
    b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}',
    b'{"stream":true,"stream_options":{"include_usage":true},"model":"a/b:c"}',
    b'{"stream_options":{"include_usage":false,"x":[1]},"model":"m","n":1.5e3}',
    b' {\t"x" : {"model":"inner","a":[{"model":1},{}]} ,\n"model" : "m" }\r\n',
    b'{"x":{"model":"inner"},"mod\\u0065l":"outer"}',
    b'{"\\"model":"x","model":"m","y":"\\"model\\":\\"z\\""}',
    b'{"model":"\\ud83d\\ude00 \\n\\"\\\\","s":"\\u00e9"}',
    b'{"model":"\xc3\xa9","a":-0.0,"b":123456789012345678901234567890,"c":null}',
    b'{"strea\\u006d":true,"stream\\u005foptions":{"include_usage":false},"model":"m"}',
)
"""Bodies to begin with."""
TOKENS: Final = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"\0", b"\x1f", b"\x7f"),
    *(b"0", b"-", b".", b"e9", b"1", b"NaN", b"-Infinity", b"true", b"null", b"\\u0000"),
    *(b"\\ud800", b"\\udc00", b"\\u006d", b"\\u004d", b"\\/", b"\\x", b"\xff", b"\xc3", b"\xa9"),
    *(b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xf4\x90\x80\x80"),
    *(b'"model":"x",', b'"Model":"x",', b'"model"', b'"MODEL":1,', b'"mod\\u0065l":"x",'),
    *(b'"stream":true,', b'"stream":1,', b'"stream_options":{},', b'"stream_options":null,'),
    *(b'{"model":"m"}', b'"x":[', b'"x":{', b"//", b"'"),
)
"""What has a meaning of its own to some reader of bodies."""


class Members(list[tuple[str, Any]]):
    """An object as the pairs that it was written as."""

    def values_of(self, name: str) -> list[Any]:
        """Every value that ``name`` was given."""
        return [value for key, value in self if key == name]


def parse(body: bytes) -> Members | None:
    """The members of the JSON object that ``body`` is, or ``None`` where it is none."""
    try:
        text = body.decode()
        value = json.loads(text, object_pairs_hook=Members, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Members) else None


def decide(body: bytes) -> tuple[str, bool] | None:
    """Model and ``stream`` of a body that names both without doubt; ``None`` for any other."""
    members = parse(body)
    if members is None:
        return None
    names = [name for name, _ in members if name.casefold() == "model"]
    model = dict(members).get("model")
    streams = members.values_of("stream")
    if names != ["model"] or not isinstance(model, str) or len(streams) > 1:
        return None
    if not 0 < len(model.encode()) <= MAX_MODEL_BYTES or not model.isprintable():
        return None
    if streams and streams[0] is not None and not isinstance(streams[0], bool):
        return None
    return model, streams == [True]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class JsonMutator:
    """An endless supply of bodies, sound and broken; the same ``seed`` gives the same ones."""

    def __init__(self, seed: int, seeds: Sequence[bytes] = SEEDS) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._seeds = seeds

    def body(self) -> bytes:
        """One body with up to four changes."""
        data = self._random.choice(self._seeds)
        for _ in range(self._random.randrange(_MOST_CHANGES + 1)):
            data = self._change(data)
        return data

    def _change(self, data: bytes) -> bytes:
        start = self._random.randrange(len(data) + 1)
        end = min(len(data), start + self._random.choice((0, 0, 1, 2, 8)))
        match self._random.randrange(4):
            case 0:
                return data[:start] + data[end:]
            case 1:
                return data[:end] + data[start:end] + data[end:]
            case 2:
                # Where a member may stand, so that the result is often sound.
                start = self._after(data, b"{,")
        return data[:start] + self._random.choice(TOKENS) + data[max(start, end) :]

    def _after(self, data: bytes, marks: bytes) -> int:
        places = [at + 1 for at, byte in enumerate(data) if byte in marks]
        return self._random.choice(places or [0])

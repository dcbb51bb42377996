"""A Secret gives itself out only where it is asked to by name."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import pprint
import reprlib
import string
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from relay_gateway.secret import MASK, Secret

VALUE = "sk-canary-0123456789"


@pytest.fixture
def secret() -> Secret:
    return Secret(VALUE)


def test_t11_no_way_of_printing_shows_it(secret: Secret, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning("%s %r %s", secret, secret, [secret])
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        f"{[secret]}",
    ]
    assert VALUE not in "".join(shown) + caplog.text
    assert shown[0] == MASK
    assert len(MASK) != len(VALUE)


def test_t11_it_cannot_be_serialised_or_copied(secret: Secret) -> None:
    for serialise in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as refused:
            serialise(secret)
        assert VALUE not in str(refused.value)
    assert not hasattr(secret, "__dict__")


def test_t11_it_is_not_compared_by_accident(secret: Secret) -> None:
    with pytest.raises(TypeError):
        secret == VALUE  # noqa: B015 - the comparison itself is what is refused
    assert secret.matches(VALUE)
    assert not secret.matches(VALUE + "x")


def test_it_is_given_out_by_name(secret: Secret) -> None:
    assert secret.reveal() == VALUE
    assert bool(secret)
    assert not Secret("")


@dataclasses.dataclass(frozen=True)
class Holder:
    key: Secret


class Pair(NamedTuple):
    name: str
    key: Secret


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    key: Secret


def raised(error: BaseException, *, with_locals: bool = False) -> str:
    try:
        raise error
    except type(error) as caught:
        found = traceback.TracebackException.from_exception(caught, capture_locals=with_locals)
        return "".join(found.format())


def warned(secret: Secret) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(str(secret), stacklevel=1)
    return str(caught[0].message)


LEAK_PATHS: list[Callable[[Any], object]] = [
    repr,
    str,
    ascii,
    format,
    bytes,
    bytearray,
    int,
    float,
    len,
    list,
    sorted,
    iter,
    vars,
    dir,
    json.dumps,
    pickle.dumps,
    copy.copy,
    copy.deepcopy,
    reprlib.repr,
    pprint.pformat,
    msgspec.json.encode,
    msgspec.msgpack.encode,
    msgspec.to_builtins,
    warned,
    lambda secret: f"{secret:>80}",
    lambda secret: f"{secret!a}",
    lambda secret: "%s %r" % (secret, secret),  # noqa: UP031 - what is tested
    lambda secret: "%d" % secret,  # noqa: UP031 - the same
    "{0} {0!r}".format,
    lambda secret: string.Template("$key").substitute(key=secret),
    "".join,
    lambda secret: "Bearer " + secret,
    lambda secret: secret + "x",
    lambda secret: secret[:4],
    lambda secret: secret == VALUE,
    lambda secret: secret < VALUE,
    lambda secret: VALUE in secret,
    lambda secret: json.dumps({"key": secret}, default=str),
    lambda secret: json.dumps({"key": secret}, default=vars),
    lambda secret: pickle.dumps(secret, protocol=0),
    lambda secret: pickle.dumps(secret, protocol=5),
    lambda secret: secret.__getstate__(),
    lambda secret: secret.__reduce__(),
    lambda secret: dataclasses.asdict(Holder(secret)),
    lambda secret: repr(Holder(secret)),
    lambda secret: repr(Pair("a", secret)) + str(Pair("a", secret)._asdict()),
    lambda secret: Model(key=secret).model_dump_json(),
    lambda secret: repr(Model(key=secret)),
    lambda secret: repr([{secret}, (secret,), {"key": secret}]),
    lambda secret: textwrap.shorten(str(secret), 80),
    lambda secret: raised(ValueError(secret)),
    lambda secret: raised(KeyError(secret), with_locals=True),
    lambda secret: raised(RuntimeError(f"the key {secret!r} is refused")),
]


@pytest.mark.parametrize("leak", LEAK_PATHS)
def test_t11_no_way_out_but_the_one_with_a_name(
    secret: Secret, leak: Callable[[Any], object]
) -> None:
    try:
        shown = leak(secret)
    except Exception as error:  # noqa: BLE001 - a refusal is as good, when it is silent
        shown = raised(error)
    for part in (VALUE, VALUE[:8], VALUE[-8:]):
        assert part not in repr(shown)


def test_t11_its_size_does_not_tell_its_length() -> None:
    sizes = {sys.getsizeof(Secret("x" * length)) for length in (1, 10, 1000)}
    assert len(sizes) == 1


def test_a_fingerprint_tells_values_apart_and_nothing_else(secret: Secret) -> None:
    assert secret.fingerprint() == Secret(VALUE).fingerprint()
    assert secret.fingerprint() != Secret(VALUE + "x").fingerprint()
    assert len(secret.fingerprint()) == len(Secret("x").fingerprint())

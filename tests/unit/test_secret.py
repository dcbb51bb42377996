"""A Secret gives itself out only where it is asked to by name."""

from __future__ import annotations

import copy
import json
import logging
import pickle

import pytest

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

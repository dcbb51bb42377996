"""How errors are worded in the inventory."""

from __future__ import annotations

from relay_gateway.errors import PluginLoadError
from relay_gateway.registry.inventory import Origin, PluginState, Record


def record() -> Record:
    return Record("acme", None, Origin("acme", "relay-acme", "1.0"))


def test_an_error_is_one_printable_line_of_bounded_length() -> None:
    wording = record().wording(ValueError("first\nsecond \x1b[31mred\x1b[0m " + "x" * 1000))
    assert wording.startswith("ValueError: first second ?[31mred?[0m xxx")
    assert len(wording) == 500
    assert wording.endswith("…")


def test_errors_of_the_gateway_and_errors_without_a_message_are_worded_plainly() -> None:
    assert record().wording(PluginLoadError("is missing")) == "is missing"
    assert record().wording(KeyError()) == "KeyError"


def test_of_two_credentials_the_longer_is_hidden_first() -> None:
    line = record()
    line.hide({"abc", "abcdef"})
    assert line.wording("abcdef and abc") == "<secret> and <secret>"


def test_a_credential_at_the_limit_of_length_is_not_shown_in_part() -> None:
    line = record()
    line.hide({"S" * 40})
    assert "S" not in line.wording("x" * 480 + "S" * 40)


def test_a_new_state_forgets_the_error_of_the_old_one() -> None:
    line = record()
    line.enter(PluginState.FAILED, OSError("unreachable"))
    assert line.info().error == "OSError: unreachable"
    line.enter(PluginState.OPEN)
    assert (line.info().error, line.info().traceback) == (None, None)

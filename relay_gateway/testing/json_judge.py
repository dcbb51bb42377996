"""Whether the quick reader of request bodies decides as the plain reference does."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.body import ask_for_usage, read_members, replace_model
from relay_gateway.plugin.wire import UsageOption
from relay_gateway.testing.json_reference import Members, decide, parse

OPTION = UsageOption("stream_options", "include_usage")
_NAME = 'new "name"'


def judge_body(body: bytes) -> bool:
    """Whether ``body`` is accepted; raises ``AssertionError`` where the two do not agree, also on
    what it says once the model is replaced and usage is asked for."""
    members = parse(body)
    accepted = [_judge_reading(body, members, small) for small in (len(body), 0)]
    if members is None or not all(accepted):
        return False
    _judge_name(body, members)
    return True


def _judge_reading(body: bytes, members: Members | None, small: int) -> bool:
    """Judges the reader of bodies of up to ``small`` bytes, and that of larger ones."""
    expected = decide(body)
    read: tuple[str, bool] | None = None
    known: Mapping[str, msgspec.Raw] | None = None
    refusal: RequestRefusedError | None = None
    try:
        model, stream, known = read_members(body, small)
        read = model, stream
    except RequestRefusedError as error:
        refusal = error
    assert refusal is None or refusal.status == 400, f"{body!r} was refused with {refusal}"
    assert read == expected, f"{body!r} was read as {read}, the reference says {expected}"
    if read is None or members is None:
        return False
    names = [name for name, _ in members]
    assert known is None or sorted(known) == sorted(names), f"{body!r}: {known} are not {names}"
    _judge_usage(body, members, known)
    return True


def _judge_name(body: bytes, members: Members) -> None:
    changed = parse(replace_model(body, _NAME))
    wanted = [(name, _NAME if name == "model" else value) for name, value in members]
    assert changed == wanted, f"replacing the model of {body!r} made {changed}"


def _judge_usage(body: bytes, members: Members, known: Mapping[str, msgspec.Raw] | None) -> None:
    given = members.values_of(OPTION.member)
    sound = not given or (len(given) == 1 and isinstance(given[0], Members | None))
    try:
        changed = parse(ask_for_usage(body, OPTION, known)[0])
    except RequestRefusedError:
        assert not sound, f"no usage could be asked for in {body!r}"
        return
    assert sound, f"usage was asked for in {body!r}"
    assert changed is not None, f"asking for usage broke {body!r}"
    options = changed.values_of(OPTION.member)
    assert len(options) == 1, f"the option is there {len(options)} times in {changed}"
    assert options[0].values_of(OPTION.flag) == [True], f"{body!r} became {changed}"
    others = [pair for pair in changed if pair[0] != OPTION.member]
    assert others == [pair for pair in members if pair[0] != OPTION.member]

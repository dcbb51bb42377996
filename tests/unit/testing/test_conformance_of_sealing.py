"""The suite for backends that seal names what is wrong with a broken one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from relay_gateway.errors import SecretDeniedError
from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
)
from relay_gateway.testing.conformance import KnownSecret, SealingConformance
from relay_gateway.testing.context import master_key, plugin_context

VALUE = "fake-credential-7f3a"
BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "spec.valueFrom", 1)


class LabelRef(SecretRef):
    kind: Literal["labelled"] = "labelled"
    text: str
    key_id: str = ""


class Labelled(SecretBackend[PluginConfig]):
    """Only writes on each value with which key it would be sealed."""

    name = "labelled"
    Ref = StoredRef = LabelRef
    seals = True

    def key_ids(self) -> Sequence[str]:
        return [key.reveal()[:4] for key in self.context.master_keys]

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        assert isinstance(ref, LabelRef)
        return await self.wrap(Secret(ref.text), binding, previous)

    async def wrap(
        self, value: Secret, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        return LabelRef(text=value.reveal(), key_id=self.key_ids()[0])

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        assert isinstance(stored, LabelRef)
        if stored.key_id not in self.key_ids():
            raise SecretDeniedError("another key")
        return ResolvedSecret(Secret(stored.text))


class Silent(Labelled):
    seals = False


class Forgetful(Labelled):
    async def wrap(self, *arguments: Any) -> SecretRef:
        return LabelRef(text=VALUE, key_id="")


class Stubborn(Labelled):
    async def wrap(self, *arguments: Any) -> SecretRef:
        return LabelRef(text=VALUE, key_id=self.key_ids()[-1])


class Counting(Labelled):
    def key_ids(self) -> Sequence[str]:
        return [str(number) for number in range(len(self.context.master_keys))]


KNOWN = KnownSecret(LabelRef(text=VALUE), VALUE)
SUITE = SealingConformance()


def pair(kind: type[Labelled], directory: Path) -> tuple[Labelled, Labelled]:
    """The backend, and the same one after a rotation."""
    rings = ([master_key("old")], [master_key("new"), master_key("old")])
    old, new = (kind(PluginConfig(), plugin_context(directory, master_keys=r)) for r in rings)
    return old, new


async def test_a_backend_that_seals_as_it_says_passes(tmp_path: Path) -> None:
    old, new = pair(Labelled, tmp_path)
    SUITE.test_it_says_that_it_seals(old)
    await SUITE.test_what_it_keeps_names_its_key(old, KNOWN, BINDING)
    await SUITE.test_a_value_is_wrapped_anew_with_the_next_key(old, new, KNOWN, BINDING)


async def test_a_backend_that_does_not_say_so_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="never be sealed anew"):
        SUITE.test_it_says_that_it_seals(pair(Silent, tmp_path)[0])


async def test_a_backend_that_does_not_name_its_key_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="must name the key"):
        await SUITE.test_what_it_keeps_names_its_key(pair(Forgetful, tmp_path)[0], KNOWN, BINDING)


@pytest.mark.parametrize("kind", [Stubborn, Counting])
async def test_a_backend_that_cannot_be_rotated_fails(tmp_path: Path, kind: type[Labelled]) -> None:
    old, new = pair(kind, tmp_path)
    with pytest.raises(AssertionError):
        await SUITE.test_a_value_is_wrapped_anew_with_the_next_key(old, new, KNOWN, BINDING)


async def test_a_backend_whose_ids_are_its_keys_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Naked(Labelled):
        def key_ids(self) -> Sequence[str]:
            return [key.reveal() for key in self.context.master_keys]

    with pytest.raises(AssertionError, match="can be read in: id"):
        await SUITE.test_ids_of_keys_tell_nothing(pair(Naked, tmp_path)[0], caplog)

"""Signatures with the master key."""

from __future__ import annotations

from relay_gateway.security.signing import Signer
from relay_gateway.testing.context import master_key

OLD, NEW = master_key("old"), master_key("new")


def test_t63_every_key_of_the_ring_is_known_and_the_first_one_signs() -> None:
    signature = Signer([OLD], b"one").sign(b"content")
    both = Signer([NEW, OLD], b"one")
    assert both.accepts(b"content", signature)
    assert not Signer([NEW], b"one").accepts(b"content", signature)
    assert Signer([NEW], b"one").accepts(b"content", both.sign(b"content"))


def test_a_signature_is_good_for_one_content_and_one_purpose() -> None:
    signer = Signer([OLD], b"one")
    signature = signer.sign(b"content")
    assert not signer.accepts(b"contents", signature)
    assert not signer.accepts(b"content", "")
    assert not Signer([OLD], b"two").accepts(b"content", signature)


def test_without_a_key_nothing_is_accepted() -> None:
    nobody = Signer([], b"one")
    assert not nobody.possible
    assert not nobody.accepts(b"content", Signer([OLD], b"one").sign(b"content"))

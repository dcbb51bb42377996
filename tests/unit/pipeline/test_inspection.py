"""Which model a body names is found in every form that callers send."""

from __future__ import annotations

import gzip

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.inspection import MAX_FORM, Inspection, inspection_of

JSON = (b"Content-Type", b"application/json")
FORM = (b"Content-Type", b"multipart/form-data; boundary=xx")


def part(name: bytes, value: bytes, extra: bytes = b"") -> bytes:
    head = b'--xx\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n' % (name, extra)
    return head + value + b"\r\n"


def of(*fields: tuple[bytes, bytes], beginning: bytes = b"{", strict: bool = True) -> Inspection:
    return inspection_of(Headers(fields), beginning, strict=strict)


def fed(inspection: Inspection, *pieces: bytes) -> str | None:
    for piece in pieces:
        inspection.feed(piece)
    inspection.finish()
    return inspection.model


@pytest.mark.parametrize("kind", [JSON, (b"content-type", b"application/vnd.x+json; a=b")])
def test_a_json_body_is_read_whole_or_in_pieces(kind: tuple[bytes, bytes]) -> None:
    whole = of(kind)
    whole.whole(b'{"model":"m"}')
    assert whole.model == "m"
    assert fed(of(kind), b'{"mod', b'el":"m"}') == "m"


def test_where_a_model_is_due_a_body_is_read_whatever_it_says_it_is() -> None:
    assert fed(of((b"content-type", b"text/plain")), b'{"model":"m"}') == "m"
    with pytest.raises(RequestRefusedError):
        fed(of(beginning=b"x"), b"x=y")


def test_elsewhere_only_what_is_certain_counts() -> None:
    assert fed(of(strict=False), b'{"model":"m"}') == "m"
    assert fed(of(JSON, strict=False), b'{"model":1}') is None
    assert fed(of(beginning=b"\0", strict=False), b'\0{"model":"m"}') is None
    with pytest.raises(RequestRefusedError) as refused:
        fed(of(strict=False), b'{"model":"m","model":"n"}')
    assert refused.value.code == "ambiguous_body"


def test_t30_an_encoded_body_is_read_decoded() -> None:
    packed = gzip.compress(b'{"model":"m"}')
    assert fed(of(JSON, (b"content-encoding", b"gzip")), packed[:9], packed[9:]) == "m"
    whole = of(JSON, (b"content-encoding", b"gzip"))
    whole.whole(packed)
    assert whole.model == "m"


def test_t30_a_bomb_is_refused_where_a_model_is_due_and_ignored_elsewhere() -> None:
    encoding = (b"content-encoding", b"gzip")
    bomb = gzip.compress(b'{"a":"' + bytes(50_000_000))
    with pytest.raises(RequestRefusedError) as refused:
        fed(of(JSON, encoding), bomb)
    assert (refused.value.status, refused.value.code) == (415, "unsupported_media_type")
    assert fed(of(JSON, encoding, strict=False), bomb) is None


@pytest.mark.parametrize("encoding", [b"compress", b"gzip, br"])
def test_t30_an_encoding_that_cannot_be_read_is_refused_where_a_model_is_due(
    encoding: bytes,
) -> None:
    with pytest.raises(RequestRefusedError, match="cannot be read") as refused:
        of(JSON, (b"content-encoding", encoding))
    assert refused.value.status == 415
    assert fed(of((b"content-encoding", encoding), strict=False), b"anything") is None


def test_a_form_is_read_whole_or_in_pieces() -> None:
    body = part(b"model", b"m") + part(b"file", b"\0" * 100) + b"--xx--\r\n"
    whole = of(FORM)
    whole.whole(body)
    assert whole.model == "m"
    assert fed(of(FORM), body[:30], body[30:]) == "m"


def test_a_large_form_is_passed_on_once_its_model_is_known() -> None:
    inspection = of(FORM)
    inspection.feed(part(b"model", b"m") + part(b"file", b"\0" * MAX_FORM)[:-2])
    assert inspection.model == "m"
    assert fed(inspection, b"\0" * 1000, b"\r\n--xx--\r\n") == "m"


@pytest.mark.parametrize(
    "later",
    [part(b"model", b"n"), part(b"Model", b"n"), b'--xx\r\ncontent-disposition: x; NAME= "model'],
)
def test_t33_a_second_model_in_a_large_form_is_refused_wherever_it_is_cut(later: bytes) -> None:
    for cut in range(1, len(later)):
        inspection = of(FORM)
        inspection.feed(part(b"model", b"m") + part(b"file", b"\0" * MAX_FORM))
        with pytest.raises(RequestRefusedError) as refused:
            fed(inspection, later[:cut], later[cut:] + b'"\r\n\r\nx')
        assert refused.value.code == "ambiguous_body"


def test_a_form_whose_model_comes_too_late_is_refused() -> None:
    with pytest.raises(RequestRefusedError):
        fed(of(FORM), part(b"file", b"\0" * MAX_FORM), part(b"model", b"m"))

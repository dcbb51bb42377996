"""Forms are read for two fields, changed in one place, and refused where parsers may disagree."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from werkzeug.formparser import MultiPartParser as WerkzeugParser

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.form import (
    MAX_PART_HEADERS,
    MAX_PARTS,
    boundary_of,
    read_form,
    replace_form_model,
)

BOUNDARY = b"d74496d66958873e"
FILE = b'form-data; name="file"; filename="a.mp3"\r\nContent-Type: audio/mpeg'


def part(disposition: bytes, content: bytes, boundary: bytes = BOUNDARY) -> bytes:
    head = b"--%b\r\nContent-Disposition: %b\r\n\r\n" % (boundary, disposition)
    return head + content + b"\r\n"


def field(name: bytes, content: bytes) -> bytes:
    return part(b'form-data; name="%b"' % name, content)


def form(*parts: bytes, boundary: bytes = BOUNDARY) -> bytes:
    return b"".join(parts) + b"--%b--\r\n" % boundary


MODEL = field(b"model", b"whisper-1")


@pytest.mark.parametrize(
    ("body", "model", "stream"),
    [
        (form(MODEL), "whisper-1", False),
        (form(MODEL)[:-2], "whisper-1", False),
        (form(field(b"stream", b"true"), MODEL), "whisper-1", True),
        (form(field(b"stream", b"True"), MODEL), "whisper-1", True),
        (form(MODEL, field(b"stream", b"0")), "whisper-1", False),
        (form(part(FILE, b"\x00\xff--\r\n\n"), MODEL), "whisper-1", False),
        (
            form(part(FILE, b'\r\n\r\nContent-Disposition: form-data; name="model"'), MODEL),
            "whisper-1",
            False,
        ),
        (form(part(b"FORM-DATA;Name=model", b"a/b@c")), "a/b@c", False),
        (form(field(b"model", "modèle".encode())), "modèle", False),
        (
            form(part(b'form-data; name="model"\r\nContent-Type: text/plain; charset=UTF-8', b"m")),
            "m",
            False,
        ),
        (form(MODEL, field(b"timestamp_granularities[]", b"word")), "whisper-1", False),
        (form(field(b"prompt", b""), MODEL), "whisper-1", False),
        (
            form(MODEL, part(b'form-data; name="image[]"; filename="\xc3\xa9;.png"', b"x")),
            "whisper-1",
            False,
        ),
    ],
)
def test_model_and_stream_are_read_and_files_are_not_looked_into(
    body: bytes, model: str, stream: bool
) -> None:
    read = read_form(body, BOUNDARY)
    assert (read.model, read.stream) == (model, stream)
    assert body[read.start : read.end].decode() == model


TWICE = "ambiguous_body"
BAD = "invalid_request"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (form(MODEL, MODEL), TWICE),
        (form(MODEL, field(b"Model", b"b")), TWICE),
        (form(field(b"MODEL", b"b")), TWICE),
        (form(MODEL, field(b"model[]", b"b")), TWICE),
        (form(MODEL, field(b" model ", b"b")), TWICE),
        (form(MODEL, field(b"stream", b"true"), field(b"stream", b"false")), TWICE),
        (form(MODEL, part(b'form-data; name="x"; name="model"', b"b")), TWICE),
        (form(MODEL, part(b'form-data; filename="\\"; name="model"', b"b")), TWICE),
        (form(MODEL, part(b"form-data; name=\"x\"; name*=utf-8''model", b"b")), BAD),
        (form(MODEL, field(b"mod\\el", b"b")), BAD),
        (form(MODEL, field("modél".encode(), b"b")), BAD),
        (form(MODEL, part(b'form-data; name="model', b"b")), BAD),
        (form(MODEL, part(b"form-data; name=mod el", b"b")), BAD),
        (form(MODEL, part(b"form-data", b"b")), BAD),
        (form(MODEL, part(b'attachment; name="x"', b"b")), BAD),
        (form(part(b'form-data; name="model"; filename="m"', b"m")), BAD),
        (form(part(b'form-data; name="model"\r\nContent-Type: text/html', b"m")), BAD),
        (
            form(part(b'form-data; name="model"\r\nContent-Type: text/plain;charset=utf-7', b"m")),
            BAD,
        ),
        (form(part(b'form-data; name="model"\r\nContent-Transfer-Encoding: base64', b"bQ==")), BAD),
        (form(field(b"_charset_", b"utf-16"), MODEL), BAD),
        (form(MODEL, part(b'form-data; name="x"\r\n folded: 1', b"b")), BAD),
        (form(MODEL, part(b'form-data; name="x"\nX: 1', b"b")), BAD),
        (form(MODEL, part(b'form-data; name="x"\r\nContent-Disposition: form-data', b"b")), BAD),
        (form(MODEL, part(b'form-data; name="x"\r\nX: ' + b"x" * MAX_PART_HEADERS, b"b")), BAD),
        (form(MODEL, b"--" + BOUNDARY + b"\r\n\r\nb\r\n"), BAD),
        (form(MODEL, b"--" + BOUNDARY + b"\r\nX: 1\r\n"), BAD),
        (form(), BAD),
        (form(field(b"prompt", b"m")), BAD),
        (form(field(b"model", b"")), BAD),
        (form(field(b"model", b"\xff")), BAD),
        (form(field(b"model", b"a\x00b")), BAD),
        (form(field(b"model", b"m" * 257)), BAD),
        (form(MODEL, field(b"stream", b"perhaps")), BAD),
        (b"preamble\r\n" + form(MODEL), BAD),
        (b"\r\n" + form(MODEL), BAD),
        (form(MODEL) + b"epilogue", BAD),
        (form(MODEL) + form(field(b"model", b"b")), BAD),
        (MODEL, BAD),
        (b"", BAD),
        (b"--" + BOUNDARY, TWICE),
        (form(MODEL, part(FILE, b"x\n--" + BOUNDARY + b"\n")), TWICE),
        (form(MODEL, part(FILE, b"x --" + BOUNDARY + b"y")), TWICE),
        (form(MODEL, part(FILE, b"x\r\n--" + BOUNDARY + b"y\r\n")), TWICE),
        (form(MODEL, part(FILE, b"x\r\n--" + BOUNDARY + b" \r\n")), TWICE),
        (form(MODEL, *[field(b"x", b"")] * MAX_PARTS), TWICE),
    ],
)
def test_t33_what_another_parser_might_read_otherwise_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        read_form(body, BOUNDARY)
    assert (refused.value.status, refused.value.code) == (400, code)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (None, None),
        (b"application/json", None),
        (b"application/json; boundary=x", None),
        (b"multipart/form-data; boundary=x", b"x"),
        (b'Multipart/Form-Data;charset=utf-8;Boundary="a b"', b"a b"),
        (b"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxk", None),
    ],
)
def test_boundary_is_taken_from_the_content_type(
    content_type: bytes | None, boundary: bytes | None
) -> None:
    wanted = b"----WebKitFormBoundary7MA4YWxk" if b"WebKit" in (content_type or b"") else boundary
    assert boundary_of(content_type) == wanted


@pytest.mark.parametrize(
    "parameters",
    [
        b"",
        b";",
        b"; boundary",
        b"; boundary=",
        b'; boundary=""',
        b'; boundary="a ',
        b'; boundary="a "',
        b"; boundary=a b",
        b"; boundary=a; boundary=b",
        b"; boundary=" + b"x" * 71,
        b'; boundary="\xff"',
        b'; boundary="a\\"b"',
        b"; charset=utf-8",
    ],
)
def test_form_without_a_clear_boundary_is_refused(parameters: bytes) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        boundary_of(b"multipart/form-data" + parameters)
    assert refused.value.status == 400


def test_only_the_name_of_the_model_changes() -> None:
    recording = bytes(range(256)) * 8
    body = form(part(FILE, recording), MODEL, field(b"prompt", b"model"))
    changed = replace_form_model(body, read_form(body, BOUNDARY), "openai/whisper-large-v3")
    assert changed == body.replace(b"whisper-1", b"openai/whisper-large-v3")


def test_t33_a_boundary_chosen_to_be_part_of_the_upstream_name_is_refused() -> None:
    body = form(part(b'form-data; name="model"', b"m", b"large"), boundary=b"large")
    with pytest.raises(RequestRefusedError, match="boundary"):
        replace_form_model(body, read_form(body, b"large"), "--large")


def test_t32_forms_of_32_mib_are_read_in_linear_time() -> None:
    hostile = b"--" + BOUNDARY[:-1]
    for filling in (b"x", b"\r\n", hostile, b"\r\n" + hostile):
        whole = form(MODEL, part(FILE, filling * (32 * 1024 * 1024 // len(filling))))
        started = time.process_time()
        assert read_form(whole, BOUNDARY).model == "whisper-1"
        assert time.process_time() - started < 0.5


@dataclass(frozen=True)
class Quirk:
    """A part that is odd in one way or in none."""

    disposition: bytes
    content: bytes
    newline: bytes
    boundary: bytes

    def written(self) -> bytes:
        head = b"--%b%bContent-Disposition: %b" % (self.boundary, self.newline, self.disposition)
        return head + self.newline * 2 + self.content + self.newline


NAMES = [b"Model", b"model[]", b" model", b"model\\", b"mod\\el", b"%6dodel", b"", b"model"]
TAILS = [
    b'; filename="a"',
    b'; name="model"',
    b"; name=model",
    b"; name*=utf-8''model",
    b'; filename="\\"; name="model"',
    b'; filename="; name=model"',
    b"; filename*=utf-8''model",
    b"\r\nContent-Type: text/plain",
    b"\r\nContent-Type: text/plain; charset=utf-16",
    b"\r\nContent-Transfer-Encoding: base64",
    b'\r\nContent-Disposition: form-data; name="model"',
    b"\r\n folded",
    b";",
]
SHAPES = [b"form-data; name=%b", b'form-data;name = "%b"']
CONTENTS = [b"dear", b"bQ==", b"", b"\r\n--b", b"--b--", b"\n--b\n", b"x\r\n"]


def rarely(odd: Sequence[bytes], *usual: bytes) -> st.SearchStrategy[bytes]:
    """One of ``odd`` in about one of ten cases."""
    return st.sampled_from([*usual * (9 * len(odd) // len(usual)), *odd])


QUIRKS = st.builds(
    Quirk,
    st.builds(
        lambda shape, name, tail: shape % name + tail,
        rarely(SHAPES, b'form-data; name="%b"'),
        rarely(NAMES, b"x", b"prompt"),
        rarely(TAILS, b""),
    ),
    rarely(CONTENTS, b"cheap"),
    rarely([b"\n", b"\r"], b"\r\n"),
    rarely([b"b ", b"bb", b"B"], b"b"),
)
ENDS = rarely([b"--b\r\n", b"--b--\n", b"", b"--b--x"], b"--b--\r\n", b"--b--")


@settings(max_examples=1000, deadline=None)
@given(st.lists(QUIRKS, min_size=1, max_size=4), ENDS)
async def test_t33_an_accepted_form_has_one_model_for_other_parsers_too(
    parts: Sequence[Quirk], end: bytes
) -> None:
    plain = Quirk(b'form-data; name="model"', b"cheap", b"\r\n", b"b").written()
    body = plain + b"".join(each.written() for each in parts) + end
    try:
        model = read_form(body, b"b").model
    except RequestRefusedError:
        return
    assert await models_of_starlette(body) == [model]
    assert models_of_werkzeug(body) == [model]


async def models_of_starlette(body: bytes) -> list[object]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    headers = Headers({"content-type": "multipart/form-data; boundary=b"})
    try:
        read = await MultiPartParser(headers, stream()).parse()
    except MultiPartException as error:
        raise AssertionError(f"accepted, but no form: {body!r}") from error
    found: list[object] = [
        value for name, value in read.multi_items() if name.lower().startswith("model")
    ]
    await read.close()
    return found


def models_of_werkzeug(body: bytes) -> list[object]:
    fields, files = WerkzeugParser().parse(io.BytesIO(body), b"b", len(body))
    for file in chain.from_iterable(files.listvalues()):
        file.close()
    assert not any(name.lower().startswith("model") for name in files)
    return [value for name, value in fields.items(multi=True) if name.lower().startswith("model")]

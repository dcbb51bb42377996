"""Canaries: made, adopted, and found wherever and however they leaked."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.testing.canary import Canary, assert_absent, sweep


def test_secrets_are_unique_and_stable(canary: Canary) -> None:
    first = canary.secret("host-key", prefix="sk-")
    assert first.startswith("sk-")
    assert canary.secret("host-key") == first
    assert canary.secret("relay-key") != first
    assert Canary().secret("host-key") != first
    assert canary.names == ("host-key", "relay-key")


@pytest.mark.parametrize("padding", ["", "u", "us", "user:"])
@given(st.data())
def test_base64_is_found_at_every_alignment(padding: str, data: st.DataObject) -> None:
    canary = Canary()
    value = canary.adopt("key", data.draw(st.text("abc+/ÿ", min_size=30, max_size=50)), public=0)
    suffix = data.draw(st.text(max_size=3))
    text = (padding + value + suffix).encode()
    forms = (base64.b64encode(text), base64.urlsafe_b64encode(text))
    assert all(canary.find(form, "here") for form in forms)


def test_every_usual_encoding_is_found(canary: Canary) -> None:
    value = canary.adopt("key", 'p"ä/+ ' + "x" * 5 + "0123456789abcdef")
    texts: dict[str, str | bytes] = {
        "plain": f"Bearer {value}!",
        "bytes": value.encode(),
        "hex": value.encode().hex(),
        "HEX": value.encode().hex().upper(),
        "url-encoded": quote(value, safe=""),
        "json": json.dumps({"k": value}),
        "head": value[:8],
        "tail": f"…{value[-8:]}",
    }
    assert {hit.place for hit in sweep(canary, texts=texts)} == set(texts)


def test_clean_texts_have_no_hits(canary: Canary) -> None:
    canary.secret("key", prefix="sk-live-")
    assert sweep(canary, texts=["sk-live-", "nothing", b"\x00\xff"]) == []


def test_what_may_be_shown_is_no_hit(canary: Canary) -> None:
    value = canary.adopt(
        "relay-key", "sk-relay-" + "abcdefghijklmnopqrstuvwxyz0123456789", public=16
    )
    assert sweep(canary, texts=[value[:16]]) == []
    assert sweep(canary, texts=[value[:24]])


def test_allowed_canaries_are_no_hits(canary: Canary) -> None:
    text = canary.secret("mine") + canary.secret("other")
    assert {hit.canary for hit in sweep(canary, texts=[text], allowed=["mine"])} == {"other"}


def test_a_secret_too_short_to_recognise_is_refused(canary: Canary) -> None:
    with pytest.raises(ValueError, match="fewer than 16"):
        canary.adopt("pin", "1234")


def test_files_are_searched_in_depth(canary: Canary, tmp_path: Path) -> None:
    value = canary.secret("key")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "log.txt").write_text(f"a {value}")
    (tmp_path / "old.gz").write_bytes(gzip.compress(f"b {value}".encode()))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(value.encode() * 2)[:-8])
    (tmp_path / "clean").write_text("nothing")
    places = {hit.place for hit in sweep(canary, paths=[tmp_path]) if hit.form == "plain"}
    assert places == {
        str(tmp_path / "deep/er/log.txt"),
        f"{tmp_path / 'old.gz'} (decompressed)",
        f"{tmp_path / 'cut.gz'} (decompressed)",
    }


def test_a_path_that_does_not_exist_is_an_error(canary: Canary, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing to sweep"):
        sweep(canary, paths=[tmp_path / "absent"])


@pytest.mark.parametrize("blob", [False, True])
def test_a_value_spread_over_pages_of_sqlite_is_found(
    canary: Canary, tmp_path: Path, *, blob: bool
) -> None:
    value = canary.secret("key")
    file = tmp_path / "data.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (x)")
        for padding in range(3900, 4100):
            text = "." * padding + value
            database.execute("INSERT INTO t VALUES (?)", [text.encode() if blob else text])
        database.commit()
        # Open and in WAL mode: the rows are in the log, not in the file yet.
        hits = sweep(canary, paths=[file])
        database.execute("SELECT count(*) FROM t")
    assert any("(rows)" in hit.place for hit in hits)


def test_a_failure_names_places_and_never_the_secret(canary: Canary) -> None:
    value = canary.secret("host-key")
    assert_absent(canary, texts=["clean"])
    with pytest.raises(AssertionError) as caught:
        assert_absent(canary, texts={"stderr": f"x{value}"})
    message = str(caught.value)
    assert "host-key (plain) in stderr at byte 1" in message
    assert value[:8] not in message


def test_one_text_instead_of_many_is_refused(canary: Canary) -> None:
    with pytest.raises(TypeError, match="not one text"):
        sweep(canary, texts="text")

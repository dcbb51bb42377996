"""What a usage sink promises whose configuration holds a credential: that nobody sees it."""

from __future__ import annotations

import pytest

from relay_gateway.plugin import LogQuery, UsageReader, UsageSink
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.records import varied_records


class SinkCredentialConformance:
    """Subclass and provide ``credential``, ``sink`` and ``unreachable``."""

    @pytest.fixture
    def credential(self) -> str:
        """The credential that both sinks are configured with, 16 characters at least."""
        raise NotImplementedError

    @pytest.fixture
    def sink(self) -> UsageSink:
        """A sink that can write, made but not opened."""
        raise NotImplementedError

    @pytest.fixture
    def unreachable(self) -> UsageSink:
        """A sink whose storage cannot be reached, or refuses the credential; not opened."""
        raise NotImplementedError

    async def test_the_credential_is_never_shown(
        self, sink: UsageSink, credential: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        await sink.aopen()
        try:
            await sink.write(varied_records(3))
            if sink.reads:
                assert isinstance(sink, UsageReader), "a sink with reads = True is a UsageReader"
                await sink.query(LogQuery())
        finally:
            await sink.aclose()
        shown = f"{sink!r} {sink.config!r} {sink.config.model_dump_json()}"
        assert_silent(credential, {"sink": shown, "log": caplog.text})

    async def test_an_error_does_not_show_the_credential(
        self, unreachable: UsageSink, credential: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        error = await _failure_of(unreachable)
        assert error is not None, "it opened and wrote without its storage: records would be lost"
        assert_silent(credential, {"error": wording(error), "log": caplog.text})


async def _failure_of(sink: UsageSink) -> Exception | None:
    try:
        await sink.aopen()
        await sink.write(varied_records(1))
    except Exception as error:  # noqa: BLE001 - a sink may raise what it likes to be tried again
        return error
    finally:
        await sink.aclose()
    return None

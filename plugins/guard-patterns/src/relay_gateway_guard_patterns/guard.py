"""The guard: rules for requests, for answers, and for answers in a stream."""

from __future__ import annotations

from relay_gateway.plugin import (
    Allow,
    Guard,
    PluginContext,
    Refuse,
    Replace,
    Requester,
    StreamGuard,
)
from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse
from relay_gateway_guard_patterns.config import PatternsConfig
from relay_gateway_guard_patterns.contents import screened_request, screened_response
from relay_gateway_guard_patterns.screen import DeniedError, Screens
from relay_gateway_guard_patterns.stream import PatternStream

_ALLOW = Allow()


class PatternGuard(Guard[PatternsConfig]):
    """Denies or masks what its rules match. Media, names of tools and their schemas are not looked
    at."""

    name = "patterns"
    Config = PatternsConfig

    def __init__(self, config: PatternsConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._requests = Screens(config.rules, "request")
        self._responses = Screens(config.rules, "response")
        self.reads_requests = bool(self._requests)
        self.reads_responses = self.reads_streams = bool(self._responses)

    def inspect_request(
        self, request: CanonicalRequest, who: Requester
    ) -> Allow | Replace[CanonicalRequest] | Refuse:
        """Refuses or masks what a caller says."""
        try:
            screened = screened_request(request, self._requests)
        except DeniedError as error:
            return Refuse(f"it matches {error.rule!r}")
        return _ALLOW if screened is request else Replace(screened)

    def inspect_response(
        self, response: CanonicalResponse, who: Requester
    ) -> Allow | Replace[CanonicalResponse] | Refuse:
        """Refuses or masks what a model says."""
        try:
            screened = screened_response(response, self._responses)
        except DeniedError as error:
            return Refuse(f"it matches {error.rule!r}")
        return _ALLOW if screened is response else Replace(screened)

    def inspect_stream(self, who: Requester) -> StreamGuard:
        """The same, as it comes."""
        return PatternStream(self._responses, self.config.window)

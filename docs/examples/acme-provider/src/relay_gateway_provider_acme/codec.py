"""The codec: what the format can say, and the parts that say it."""

from __future__ import annotations

from relay_gateway.plugin import (
    AnswerContext,
    EncodeOptions,
    StreamDecoder,
    StreamEncoder,
    WireCodec,
)
from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse
from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.plugin.codec import Draft, approximated, carried, dropped, refused
from relay_gateway_provider_acme.answers import read_answer, write_answer
from relay_gateway_provider_acme.requests import TalkReader, write_request
from relay_gateway_provider_acme.streams import TalkStreamReader, TalkStreamWriter
from relay_gateway_provider_acme.words import FORMAT

_NO_MEDIA = refused("acme takes text only")
_NO_LOGPROBS = refused("acme does not tell them")

FEATURES = {
    Feature.MAX_OUTPUT_TOKENS: carried("limit"),
    Feature.TEMPERATURE: carried("temperature"),
    Feature.TOP_P: carried("top_p"),
    Feature.TOP_K: dropped(),
    Feature.FREQUENCY_PENALTY: dropped(),
    Feature.PRESENCE_PENALTY: dropped(),
    Feature.SEED: dropped(),
    Feature.CHOICES: refused("ask for one choice at a time"),
    Feature.LOGPROBS: _NO_LOGPROBS,
    Feature.LOGIT_BIAS: refused("acme has nothing of the kind"),
    Feature.STOP: carried("stop_texts"),
    Feature.REASONING_EFFORT: dropped(),
    Feature.REASONING_BUDGET: dropped(),
    Feature.REASONING_OFF: dropped(),
    Feature.REASONING_SUMMARY: dropped(),
    Feature.JSON_OBJECT: refused("ask for JSON in words"),
    Feature.JSON_SCHEMA: refused("describe the JSON in words"),
    Feature.VERBOSITY: dropped(),
    Feature.CACHE_KEY: dropped(),
    Feature.CACHE_MARK: dropped(),
    Feature.USER: carried("user"),
    Feature.METADATA: dropped(),
    Feature.SERVICE_TIER: dropped(),
    Feature.TOOLS: carried("tools"),
    Feature.STRICT_TOOL: dropped(),
    Feature.TOOL_CHOICE: carried("call_tools"),
    Feature.FORCED_TOOL: refused("say in words which tool to call"),
    Feature.ALLOWED_TOOLS: refused("send only the tools that may be called"),
    Feature.ONE_TOOL_AT_A_TIME: dropped(),
    Feature.SYSTEM: carried("turns"),
    Feature.SYSTEM_IN_PLACE: carried("turns"),
    Feature.DEVELOPER: approximated("as a system turn"),
    Feature.PARTICIPANT_NAME: dropped(),
    Feature.IMAGE_URL: _NO_MEDIA,
    Feature.IMAGE_DATA: _NO_MEDIA,
    Feature.IMAGE_DETAIL: dropped(),
    Feature.DOCUMENT_URL: _NO_MEDIA,
    Feature.DOCUMENT_DATA: _NO_MEDIA,
    Feature.DOCUMENT_TEXT: _NO_MEDIA,
    Feature.DOCUMENT_NAME: dropped(),
    Feature.DOCUMENT_CONTEXT: dropped(),
    Feature.AUDIO_URL: _NO_MEDIA,
    Feature.AUDIO_DATA: _NO_MEDIA,
    Feature.REFUSAL: approximated("as text"),
    Feature.REASONING: carried("turns[].parts[].seal"),
    Feature.FOREIGN_REASONING: dropped("only its own provider can read it", "turns[].parts[].seal"),
    Feature.TOOL_RESULT_MEDIA: _NO_MEDIA,
    Feature.TOOL_RESULT_ERROR: carried("turns[].parts[].failed"),
}
"""What becomes of each thing that callers of other formats may ask for."""


class TalkCodec(WireCodec):
    """Codec of ``acme.talk``."""

    format = FORMAT
    features = FEATURES

    def decode_request(
        self, body: bytes, *, model: str = "", streamed: bool = False
    ) -> CanonicalRequest:
        """The request in ``body``, which names its model itself."""
        return TalkReader(self).read(body)

    def write_request(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> Draft:
        """The members of the request; what is refused or dropped does not get here."""
        return write_request(request, model)

    def decode_response(self, body: bytes) -> CanonicalResponse:
        """A whole answer."""
        return read_answer(body)

    def encode_response(self, response: CanonicalResponse, context: AnswerContext) -> bytes:
        """A whole answer in this format."""
        return write_answer(response, context)

    def stream_decoder(self) -> StreamDecoder:
        """A fresh decoder for one stream."""
        return TalkStreamReader()

    def stream_encoder(self, context: AnswerContext) -> StreamEncoder:
        """A fresh encoder for one stream."""
        return TalkStreamWriter(context)

"""The codec of Messages: what the format can say, and the parts that say it."""

from __future__ import annotations

from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse
from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.plugin.codec import (
    AnswerContext,
    Draft,
    EncodeOptions,
    StreamDecoder,
    StreamEncoder,
    WireCodec,
    approximated,
    carried,
    dropped,
    refused,
)
from relay_gateway_provider_anthropic.messages_answers import read_answer, write_answer
from relay_gateway_provider_anthropic.messages_reader import MessagesReader
from relay_gateway_provider_anthropic.messages_stream_reader import MessagesStreamReader
from relay_gateway_provider_anthropic.messages_stream_writer import MessagesStreamWriter
from relay_gateway_provider_anthropic.messages_writer import MessagesWriter
from relay_gateway_provider_anthropic.words import FORMAT

_CONTENT = "messages[].content[]"
FEATURES = {
    Feature.MAX_OUTPUT_TOKENS: carried("max_tokens"),
    Feature.TEMPERATURE: approximated("at most 1, and left out beside thinking", "temperature"),
    Feature.TOP_P: carried("top_p"),
    Feature.TOP_K: carried("top_k"),
    Feature.FREQUENCY_PENALTY: dropped(),
    Feature.PRESENCE_PENALTY: dropped(),
    Feature.SEED: dropped(),
    Feature.CHOICES: refused("ask for one choice at a time"),
    Feature.LOGPROBS: refused("the API has none"),
    Feature.LOGIT_BIAS: refused("the API has none"),
    Feature.STOP: carried("stop_sequences"),
    Feature.REASONING_EFFORT: approximated("adaptive thinking; minimal is low", "output_config"),
    Feature.REASONING_BUDGET: carried("thinking.budget_tokens"),
    Feature.REASONING_OFF: carried("thinking"),
    Feature.REASONING_SUMMARY: approximated("summarized or omitted", "thinking.display"),
    Feature.JSON_OBJECT: refused("ask for a JSON schema instead"),
    Feature.JSON_SCHEMA: approximated("without name and description", "output_config.format"),
    Feature.VERBOSITY: dropped(),
    Feature.CACHE_KEY: dropped(),
    Feature.CACHE_MARK: approximated("for five minutes or one hour", "cache_control"),
    Feature.USER: carried("metadata.user_id"),
    Feature.METADATA: dropped(),
    Feature.SERVICE_TIER: approximated("auto and default; others are dropped", "service_tier"),
    Feature.TOOLS: carried("tools"),
    Feature.STRICT_TOOL: carried("tools[].strict"),
    Feature.TOOL_CHOICE: carried("tool_choice"),
    Feature.FORCED_TOOL: carried("tool_choice"),
    Feature.ALLOWED_TOOLS: approximated("only the allowed tools are sent"),
    Feature.ONE_TOOL_AT_A_TIME: carried("tool_choice.disable_parallel_tool_use"),
    Feature.SYSTEM: carried("system"),
    Feature.SYSTEM_IN_PLACE: carried("messages"),
    Feature.DEVELOPER: approximated("as a system message"),
    Feature.PARTICIPANT_NAME: dropped(),
    Feature.IMAGE_URL: carried(f"{_CONTENT}.source"),
    Feature.IMAGE_DATA: carried(f"{_CONTENT}.source"),
    Feature.IMAGE_DETAIL: dropped(),
    Feature.DOCUMENT_URL: carried(f"{_CONTENT}.source"),
    Feature.DOCUMENT_DATA: carried(f"{_CONTENT}.source"),
    Feature.DOCUMENT_TEXT: carried(f"{_CONTENT}.source"),
    Feature.DOCUMENT_NAME: carried(f"{_CONTENT}.title"),
    Feature.DOCUMENT_CONTEXT: carried(f"{_CONTENT}.context"),
    Feature.AUDIO_URL: refused("the API takes no audio"),
    Feature.AUDIO_DATA: refused("the API takes no audio"),
    Feature.REFUSAL: approximated("as text"),
    Feature.REASONING: carried(f"{_CONTENT}.thinking"),
    Feature.FOREIGN_REASONING: dropped("only its own provider can read it", f"{_CONTENT}.thinking"),
    Feature.TOOL_RESULT_MEDIA: carried(f"{_CONTENT}.content[]"),
    Feature.TOOL_RESULT_ERROR: carried(f"{_CONTENT}.is_error"),
}


class MessagesCodec(WireCodec):
    """Codec of ``anthropic.messages``."""

    format = FORMAT
    features = FEATURES
    advisory = frozenset(
        {
            "context_management",
            "diagnostics",
            "messages[].content[].citations",
            "messages[].content[].transformations",
            "speed",
            "system[].citations",
            "tools[].eager_input_streaming",
            "tools[].input_examples",
            "user_profile_id",
        }
    )

    def decode_request(
        self, body: bytes, *, model: str = "", streamed: bool = False
    ) -> CanonicalRequest:
        return MessagesReader(self).read(body)

    def write_request(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> Draft:
        return MessagesWriter(request, model, options).write()

    def decode_response(self, body: bytes) -> CanonicalResponse:
        return read_answer(body)

    def encode_response(self, response: CanonicalResponse, context: AnswerContext) -> bytes:
        return write_answer(response, context)

    def stream_decoder(self) -> StreamDecoder:
        return MessagesStreamReader()

    def stream_encoder(self, context: AnswerContext) -> StreamEncoder:
        return MessagesStreamWriter(context)

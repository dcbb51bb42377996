"""The codec of Responses: what the format can say without stored state, and the parts that say
it."""

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
from relay_gateway_provider_openai.responses_answers import read_answer, write_answer
from relay_gateway_provider_openai.responses_reader import FORMAT, ResponsesReader
from relay_gateway_provider_openai.responses_stream_reader import ResponsesStreamReader
from relay_gateway_provider_openai.responses_stream_writer import ResponsesStreamWriter
from relay_gateway_provider_openai.responses_writer import ResponsesWriter

_CONTENT = "input[].content[]"
_BREAKPOINT = f"{_CONTENT}.prompt_cache_breakpoint"
FEATURES = {
    Feature.MAX_OUTPUT_TOKENS: carried("max_output_tokens"),
    Feature.TEMPERATURE: carried("temperature"),
    Feature.TOP_P: carried("top_p"),
    Feature.TOP_K: dropped(),
    Feature.FREQUENCY_PENALTY: dropped(),
    Feature.PRESENCE_PENALTY: dropped(),
    Feature.SEED: dropped(),
    Feature.CHOICES: refused("ask for one choice at a time"),
    Feature.LOGPROBS: carried("include"),
    Feature.LOGIT_BIAS: refused("the API has none"),
    Feature.STOP: refused("the API has none"),
    Feature.REASONING_EFFORT: carried("reasoning.effort"),
    Feature.REASONING_BUDGET: approximated("low up to 4096 tokens, medium up to 16384, else high"),
    Feature.REASONING_OFF: carried("reasoning.effort"),
    Feature.REASONING_SUMMARY: approximated("auto, concise, detailed or none", "reasoning.summary"),
    Feature.JSON_OBJECT: carried("text.format"),
    Feature.JSON_SCHEMA: carried("text.format"),
    Feature.VERBOSITY: carried("text.verbosity"),
    Feature.CACHE_KEY: carried("prompt_cache_key"),
    Feature.CACHE_MARK: dropped("the provider caches prompts without being asked", _BREAKPOINT),
    Feature.USER: carried("user"),
    Feature.METADATA: carried("metadata"),
    Feature.SERVICE_TIER: carried("service_tier"),
    Feature.TOOLS: carried("tools"),
    Feature.STRICT_TOOL: carried("tools[].strict"),
    Feature.TOOL_CHOICE: carried("tool_choice"),
    Feature.FORCED_TOOL: carried("tool_choice"),
    Feature.ALLOWED_TOOLS: carried("tool_choice"),
    Feature.ONE_TOOL_AT_A_TIME: carried("parallel_tool_calls"),
    Feature.SYSTEM: carried("instructions"),
    Feature.SYSTEM_IN_PLACE: carried("input"),
    Feature.DEVELOPER: carried("input[].role"),
    Feature.PARTICIPANT_NAME: dropped(),
    Feature.IMAGE_URL: carried(f"{_CONTENT}.image_url"),
    Feature.IMAGE_DATA: carried(f"{_CONTENT}.image_url"),
    Feature.IMAGE_DETAIL: carried(f"{_CONTENT}.detail"),
    Feature.DOCUMENT_URL: carried(f"{_CONTENT}.file_url"),
    Feature.DOCUMENT_DATA: carried(f"{_CONTENT}.file_data"),
    Feature.DOCUMENT_TEXT: approximated("as text"),
    Feature.DOCUMENT_NAME: carried(f"{_CONTENT}.filename"),
    Feature.DOCUMENT_CONTEXT: dropped(),
    Feature.AUDIO_URL: refused("the API takes no audio"),
    Feature.AUDIO_DATA: refused("the API takes no audio"),
    Feature.REFUSAL: carried(f"{_CONTENT}.refusal"),
    Feature.REASONING: carried("input[].encrypted_content"),
    Feature.FOREIGN_REASONING: dropped("only its own provider can read it", "input[].reasoning"),
    Feature.TOOL_RESULT_MEDIA: carried("input[].output[]"),
    Feature.TOOL_RESULT_ERROR: dropped(),
}


class ResponsesCodec(WireCodec):
    """Codec of ``openai.responses``. What needs stored state is refused by its name."""

    format = FORMAT
    features = FEATURES
    advisory = frozenset(
        {
            "client_metadata",
            "image",
            "input[].content[].annotations",
            "input[].content[].logprobs",
            "input[].phase",
            "max_tool_calls",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning.context",
            "safety_identifier",
            "store",
            "stream_options",
            "truncation",
        }
    )

    def decode_request(
        self, body: bytes, *, model: str = "", streamed: bool = False
    ) -> CanonicalRequest:
        return ResponsesReader(self).read(body)

    def write_request(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> Draft:
        return ResponsesWriter(request, model).write()

    def decode_response(self, body: bytes) -> CanonicalResponse:
        return read_answer(body)

    def encode_response(self, response: CanonicalResponse, context: AnswerContext) -> bytes:
        return write_answer(response, context)

    def stream_decoder(self) -> StreamDecoder:
        return ResponsesStreamReader()

    def stream_encoder(self, context: AnswerContext) -> StreamEncoder:
        return ResponsesStreamWriter(context)

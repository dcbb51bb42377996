"""The codec of Chat Completions: what the format can say, and the parts that say it."""

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
from relay_gateway_provider_openai.chat_answers import read_answer, write_answer
from relay_gateway_provider_openai.chat_reader import ChatReader
from relay_gateway_provider_openai.chat_reasoning import FORMAT
from relay_gateway_provider_openai.chat_stream_reader import ChatStreamReader
from relay_gateway_provider_openai.chat_stream_writer import ChatStreamWriter
from relay_gateway_provider_openai.chat_writer import ChatWriter
from relay_gateway_provider_openai.host_config import OpenAIHost

_CONTENT = "messages[].content[]"
FEATURES = {
    Feature.MAX_OUTPUT_TOKENS: carried("max_completion_tokens"),
    Feature.TEMPERATURE: carried("temperature"),
    Feature.TOP_P: carried("top_p"),
    Feature.TOP_K: dropped(),
    Feature.FREQUENCY_PENALTY: carried("frequency_penalty"),
    Feature.PRESENCE_PENALTY: carried("presence_penalty"),
    Feature.SEED: carried("seed"),
    Feature.CHOICES: refused("ask for one choice at a time", "n"),
    Feature.LOGPROBS: carried("logprobs"),
    Feature.LOGIT_BIAS: carried("logit_bias"),
    Feature.STOP: carried("stop"),
    Feature.REASONING_EFFORT: carried("reasoning_effort"),
    Feature.REASONING_BUDGET: approximated("low up to 4096 tokens, medium up to 16384, else high"),
    Feature.REASONING_OFF: carried("reasoning_effort"),
    Feature.REASONING_SUMMARY: dropped(),
    Feature.JSON_OBJECT: carried("response_format"),
    Feature.JSON_SCHEMA: carried("response_format"),
    Feature.VERBOSITY: carried("verbosity"),
    Feature.CACHE_KEY: carried("prompt_cache_key"),
    Feature.CACHE_MARK: dropped(
        "hosts cache prompts without being asked", f"{_CONTENT}.prompt_cache_breakpoint"
    ),
    Feature.USER: carried("user"),
    Feature.METADATA: carried("metadata"),
    Feature.SERVICE_TIER: carried("service_tier"),
    Feature.TOOLS: carried("tools"),
    Feature.STRICT_TOOL: carried("tools[].function.strict"),
    Feature.TOOL_CHOICE: carried("tool_choice"),
    Feature.FORCED_TOOL: carried("tool_choice"),
    Feature.ALLOWED_TOOLS: carried("tool_choice"),
    Feature.ONE_TOOL_AT_A_TIME: carried("parallel_tool_calls"),
    Feature.SYSTEM: carried("messages"),
    Feature.SYSTEM_IN_PLACE: carried("messages"),
    Feature.DEVELOPER: carried("messages[].role"),
    Feature.PARTICIPANT_NAME: carried("messages[].name"),
    Feature.IMAGE_URL: carried(f"{_CONTENT}.image_url"),
    Feature.IMAGE_DATA: carried(f"{_CONTENT}.image_url"),
    Feature.IMAGE_DETAIL: carried(f"{_CONTENT}.image_url.detail"),
    Feature.DOCUMENT_URL: refused("send the document itself"),
    Feature.DOCUMENT_DATA: carried(f"{_CONTENT}.file"),
    Feature.DOCUMENT_TEXT: approximated("as text"),
    Feature.DOCUMENT_NAME: carried(f"{_CONTENT}.file.filename"),
    Feature.DOCUMENT_CONTEXT: dropped(),
    Feature.AUDIO_URL: refused("send the recording itself"),
    Feature.AUDIO_DATA: carried(f"{_CONTENT}.input_audio"),
    Feature.REFUSAL: carried("messages[].refusal"),
    Feature.REASONING: carried("messages[].reasoning_details"),
    Feature.FOREIGN_REASONING: dropped("only its own provider can read it", "messages[].reasoning"),
    Feature.TOOL_RESULT_MEDIA: approximated("in a user message after the results"),
    Feature.TOOL_RESULT_ERROR: dropped(),
}


class ChatCodec(WireCodec):
    """Codec of ``openai.chat``."""

    format = FORMAT
    features = FEATURES
    advisory = frozenset(
        {
            "messages[].annotations",
            # What client libraries make of an answer, and send back with it.
            "messages[].parsed",
            "messages[].provider_specific_fields",
            "messages[].thinking_blocks",
            "messages[].tool_calls[].function.parsed_arguments",
            "messages[].tool_calls[].provider_specific_fields",
            "prediction",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "store",
            "stream_options.include_obfuscation",
        }
    )

    def decode_request(
        self, body: bytes, *, model: str = "", streamed: bool = False
    ) -> CanonicalRequest:
        return ChatReader(self).read(body)

    def write_request(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> Draft:
        config = options.host_config
        host = config if isinstance(config, OpenAIHost) else OpenAIHost()
        return ChatWriter(request, model, host).write()

    def decode_response(self, body: bytes) -> CanonicalResponse:
        return read_answer(body)

    def encode_response(self, response: CanonicalResponse, context: AnswerContext) -> bytes:
        return write_answer(response, context)

    def stream_decoder(self) -> StreamDecoder:
        return ChatStreamReader()

    def stream_encoder(self, context: AnswerContext) -> StreamEncoder:
        return ChatStreamWriter(context)

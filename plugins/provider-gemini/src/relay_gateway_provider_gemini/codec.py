"""The codec of generateContent: what the format can say, and the parts that say it."""

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
from relay_gateway_provider_gemini.answers import read_answer, write_answer
from relay_gateway_provider_gemini.request_reader import RequestReader
from relay_gateway_provider_gemini.request_writer import RequestWriter
from relay_gateway_provider_gemini.streams import StreamReader, StreamWriter
from relay_gateway_provider_gemini.words import FORMAT

_CONFIG = "generationConfig"
_PART = "contents[].parts[]"
_CALLING = "toolConfig.functionCallingConfig"
FEATURES = {
    Feature.MAX_OUTPUT_TOKENS: carried(f"{_CONFIG}.maxOutputTokens"),
    Feature.TEMPERATURE: carried(f"{_CONFIG}.temperature"),
    Feature.TOP_P: carried(f"{_CONFIG}.topP"),
    Feature.TOP_K: carried(f"{_CONFIG}.topK"),
    Feature.FREQUENCY_PENALTY: carried(f"{_CONFIG}.frequencyPenalty"),
    Feature.PRESENCE_PENALTY: carried(f"{_CONFIG}.presencePenalty"),
    Feature.SEED: carried(f"{_CONFIG}.seed"),
    Feature.CHOICES: refused("ask for one choice at a time", f"{_CONFIG}.candidateCount"),
    Feature.LOGPROBS: carried(f"{_CONFIG}.responseLogprobs"),
    Feature.LOGIT_BIAS: refused("the API has none"),
    Feature.STOP: carried(f"{_CONFIG}.stopSequences"),
    Feature.REASONING_EFFORT: approximated(
        "as a thinking level; max is xhigh", f"{_CONFIG}.thinkingConfig.thinkingLevel"
    ),
    Feature.REASONING_BUDGET: carried(f"{_CONFIG}.thinkingConfig.thinkingBudget"),
    Feature.REASONING_OFF: carried(f"{_CONFIG}.thinkingConfig.thinkingBudget"),
    Feature.REASONING_SUMMARY: approximated(
        "shown or not", f"{_CONFIG}.thinkingConfig.includeThoughts"
    ),
    Feature.JSON_OBJECT: carried(f"{_CONFIG}.responseMimeType"),
    Feature.JSON_SCHEMA: approximated(
        "without name and description", f"{_CONFIG}.responseJsonSchema"
    ),
    Feature.VERBOSITY: dropped(),
    Feature.CACHE_KEY: dropped(),
    Feature.CACHE_MARK: dropped("the provider caches prompts without being asked"),
    Feature.USER: dropped(),
    Feature.METADATA: dropped(),
    Feature.SERVICE_TIER: approximated(
        "default, flex and priority; others are dropped", "serviceTier"
    ),
    Feature.TOOLS: carried("tools"),
    Feature.STRICT_TOOL: dropped(),
    Feature.TOOL_CHOICE: carried(_CALLING),
    Feature.FORCED_TOOL: carried(_CALLING),
    Feature.ALLOWED_TOOLS: approximated("only the allowed tools are sent", _CALLING),
    Feature.ONE_TOOL_AT_A_TIME: dropped(),
    Feature.SYSTEM: carried("systemInstruction"),
    Feature.SYSTEM_IN_PLACE: approximated("added to the system instruction"),
    Feature.DEVELOPER: approximated("added to the system instruction"),
    Feature.PARTICIPANT_NAME: dropped(),
    Feature.IMAGE_URL: approximated("as a file URI, its type from the ending", f"{_PART}.fileData"),
    Feature.IMAGE_DATA: carried(f"{_PART}.inlineData"),
    Feature.IMAGE_DETAIL: dropped(),
    Feature.DOCUMENT_URL: approximated(
        "as a file URI, its type from the ending", f"{_PART}.fileData"
    ),
    Feature.DOCUMENT_DATA: carried(f"{_PART}.inlineData"),
    Feature.DOCUMENT_TEXT: approximated("as text", f"{_PART}.inlineData"),
    Feature.DOCUMENT_NAME: dropped(name=f"{_PART}.inlineData.displayName"),
    Feature.DOCUMENT_CONTEXT: dropped(),
    Feature.AUDIO_URL: carried(f"{_PART}.fileData"),
    Feature.AUDIO_DATA: carried(f"{_PART}.inlineData"),
    Feature.REFUSAL: approximated("as text"),
    Feature.REASONING: carried(f"{_PART}.thoughtSignature"),
    Feature.FOREIGN_REASONING: dropped("only its own provider can read it", f"{_PART}.thought"),
    Feature.TOOL_RESULT_MEDIA: carried(f"{_PART}.functionResponse.parts"),
    Feature.TOOL_RESULT_ERROR: carried(f"{_PART}.functionResponse.response"),
}


class GenerateCodec(WireCodec):
    """Codec of ``gemini.generate``. The model and whether the answer is a stream are in the path,
    so both are given to :meth:`decode_request`, and the encoder leaves them to the provider."""

    format = FORMAT
    features = FEATURES
    advisory = frozenset(
        {
            f"{_CONFIG}.enableEnhancedCivicAnswers",
            f"{_CONFIG}.mediaResolution",
            f"{_PART}.mediaResolution",
            f"{_PART}.partMetadata",
            "labels",
            "safetySettings",
            "store",
            "tools[].functionDeclarations[].response",
            "tools[].functionDeclarations[].responseJsonSchema",
        }
    )

    def decode_request(
        self, body: bytes, *, model: str = "", streamed: bool = False
    ) -> CanonicalRequest:
        return RequestReader(self).read(body, model, streamed=streamed)

    def write_request(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> Draft:
        return RequestWriter(request).write()

    def decode_response(self, body: bytes) -> CanonicalResponse:
        return read_answer(body)

    def encode_response(self, response: CanonicalResponse, context: AnswerContext) -> bytes:
        return write_answer(response, context)

    def stream_decoder(self) -> StreamDecoder:
        return StreamReader()

    def stream_encoder(self, context: AnswerContext) -> StreamEncoder:
        return StreamWriter(context)

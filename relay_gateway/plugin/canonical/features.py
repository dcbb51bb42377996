"""What a request can ask for, one by one, and where a request does.

A codec declares for each feature what becomes of it (see :class:`~relay_gateway.plugin.codec.Fate`)
and the base class of codecs acts on that declaration, so the table in the documentation and the
behaviour have one source.
"""

from __future__ import annotations

import enum


class Feature(enum.Enum):
    """A thing that some wire formats can ask for and others cannot. The value is for readers."""

    MAX_OUTPUT_TOKENS = "limit of output tokens"
    TEMPERATURE = "temperature"
    TOP_P = "top-p sampling"
    TOP_K = "top-k sampling"
    FREQUENCY_PENALTY = "frequency penalty"
    PRESENCE_PENALTY = "presence penalty"
    SEED = "seed"
    CHOICES = "several choices"
    LOGPROBS = "log probabilities"
    LOGIT_BIAS = "logit bias"
    STOP = "stop sequences"
    REASONING_EFFORT = "reasoning effort"
    REASONING_BUDGET = "reasoning budget in tokens"
    REASONING_OFF = "no reasoning"
    REASONING_SUMMARY = "how reasoning is shown"
    JSON_OBJECT = "JSON answer without a schema"
    JSON_SCHEMA = "JSON answer of a schema"
    VERBOSITY = "verbosity"
    CACHE_KEY = "key of the prompt cache"
    CACHE_MARK = "cache marks"
    USER = "end user's identifier"
    METADATA = "metadata"
    SERVICE_TIER = "service tier"
    TOOLS = "function tools"
    STRICT_TOOL = "strict tool schema"
    TOOL_CHOICE = "tool choice auto and none"
    FORCED_TOOL = "tool choice required or one tool"
    ALLOWED_TOOLS = "tool choice among several tools"
    ONE_TOOL_AT_A_TIME = "no parallel tool calls"
    SYSTEM = "system prompt"
    SYSTEM_IN_PLACE = "system message after the conversation began"
    DEVELOPER = "developer message"
    PARTICIPANT_NAME = "name of a participant"
    IMAGE_URL = "image by URL"
    IMAGE_DATA = "image in the request"
    IMAGE_DETAIL = "detail of an image"
    DOCUMENT_URL = "document by URL"
    DOCUMENT_DATA = "PDF in the request"
    DOCUMENT_TEXT = "plain-text document"
    DOCUMENT_NAME = "name of a document"
    DOCUMENT_CONTEXT = "what is said about a document"
    AUDIO_URL = "audio by URL"
    AUDIO_DATA = "audio in the request"
    REFUSAL = "earlier refusal"
    REASONING = "earlier reasoning of the provider that is asked"
    FOREIGN_REASONING = "earlier reasoning of another provider"
    TOOL_RESULT_MEDIA = "image or document in a tool result"
    TOOL_RESULT_ERROR = "tool result that is an error"


class Support(enum.Enum):
    """How well a format can express a feature."""

    CARRIED = "carried"
    """As it was asked for."""
    APPROXIMATED = "approximated"
    """By the nearest thing the format has."""
    DROPPED = "dropped"
    """Left out and named in the header of dropped parameters: it is advice, not a demand."""
    REFUSED = "refused"
    """A request with it is refused."""

"""The Anthropic SDK against the gateway: an answer, a stream, a token count."""

from __future__ import annotations

import os

from anthropic import Anthropic

client = Anthropic(
    base_url=os.environ.get("RELAY_URL", "http://127.0.0.1:8080"),
    api_key=os.environ["RELAY_KEY"],
)

message = client.messages.create(
    model="echo", max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
)
print("".join(block.text for block in message.content if block.type == "text"))

with client.messages.stream(
    model="echo", max_tokens=100, messages=[{"role": "user", "content": "Hello again"}]
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()

count = client.messages.count_tokens(model="echo", messages=[{"role": "user", "content": "Hello"}])
print(count.input_tokens, "tokens")

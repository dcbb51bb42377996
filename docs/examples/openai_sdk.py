"""The OpenAI SDK against the gateway: an answer, a stream, embeddings."""

from __future__ import annotations

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("RELAY_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ["RELAY_KEY"],
)

answer = client.chat.completions.create(
    model="echo", messages=[{"role": "user", "content": "Hello"}]
)
print(answer.choices[0].message.content)

stream = client.chat.completions.create(
    model="echo", messages=[{"role": "user", "content": "Hello again"}], stream=True
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()

vectors = client.embeddings.create(model="echo-embedding", input=["one", "two"])
print(len(vectors.data), "vectors")

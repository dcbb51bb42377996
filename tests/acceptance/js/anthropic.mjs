// The official Anthropic client for JavaScript.

import Anthropic from "@anthropic-ai/sdk";
import { forEachModel, key, parameters, pixel, schema, tools, url } from "./scene.mjs";

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const offered = tools.map((name) => ({ name, description: name, input_schema: parameters }));
const asked = (model, content, more = {}) => ({
  model,
  max_tokens: 4096,
  messages: [{ role: "user", content }],
  ...more,
});
const text = (message) =>
  message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

await forEachModel({
  async chat(model) {
    const answer = await client.messages.create(asked(model, "Hello"));
    return [text(answer), answer.usage.input_tokens + answer.usage.cache_read_input_tokens + answer.usage.output_tokens];
  },
  async stream(model) {
    const stream = client.messages.stream(asked(model, "Hello"));
    let pieces = "";
    stream.on("text", (piece) => (pieces += piece));
    await stream.finalMessage();
    return pieces;
  },
  async tools(model) {
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const first = asked(model, "think", { tools: offered, thinking });
    const answer = await client.messages.stream(first).finalMessage();
    const calls = answer.content.filter((block) => block.type === "tool_use");
    const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: "fine" }));
    const messages = [
      ...first.messages,
      { role: "assistant", content: answer.content },
      { role: "user", content: results },
    ];
    const again = await client.messages.create({ ...first, messages });
    return [Object.fromEntries(calls.map((call) => [call.name, call.input])), text(again)];
  },
  async vision(model) {
    const source = { type: "base64", media_type: "image/png", data: pixel };
    return text(
      await client.messages.create(asked(model, [{ type: "text", text: "Look" }, { type: "image", source }])),
    );
  },
  async schema(model) {
    const format = { type: "json_schema", schema };
    return JSON.parse(text(await client.messages.create(asked(model, "Where", { output_config: { format } }))));
  },
  error_400: (model) => client.messages.create(asked(model, "fail 400")),
  error_404: (model) => client.messages.create(asked(model, "fail 404")),
  error_500: (model) => client.messages.create(asked(model, "fail 500")),
  async broken(model) {
    await client.messages.stream(asked(model, "cut")).finalMessage();
    return "ended";
  },
  async cancelled(model) {
    const stream = await client.messages.create(asked(model, "hang", { stream: true }));
    for await (const _ of stream) break;
    stream.controller.abort();
    return "left";
  },
});

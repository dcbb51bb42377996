// The official OpenAI client for JavaScript.

import OpenAI from "openai";
import { forEachModel, key, parameters, pixel, report, schema, tools, url } from "./scene.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const functions = tools.map((name) => ({ type: "function", function: { name, parameters } }));
const flat = tools.map((name) => ({ type: "function", name, parameters, strict: false }));
const said = (content) => [{ role: "user", content }];
const calls = (message) =>
  Object.fromEntries(message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]));

await forEachModel({
  async chat(model) {
    const answer = await client.chat.completions.create({ model, messages: said("Hello") });
    return [answer.choices[0].message.content, answer.usage.total_tokens];
  },
  async stream(model) {
    const stream = await client.chat.completions.create({ model, messages: said("Hello"), stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  async tools(model) {
    const messages = said("think");
    const runner = client.chat.completions.stream({ model, messages, tools: functions });
    const message = await runner.finalMessage();
    const results = message.tool_calls.map((c) => ({ role: "tool", tool_call_id: c.id, content: "fine" }));
    const again = await client.chat.completions.create({
      model,
      messages: [...messages, message, ...results],
      tools: functions,
    });
    return [calls(message), again.choices[0].message.content];
  },
  async vision(model) {
    const content = [
      { type: "text", text: "Look" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${pixel}` } },
    ];
    const answer = await client.chat.completions.create({ model, messages: said(content) });
    return answer.choices[0].message.content;
  },
  async schema(model) {
    const format = { type: "json_schema", json_schema: { name: "place", schema, strict: true } };
    const answer = await client.chat.completions.parse({
      model,
      messages: said("Where"),
      response_format: format,
    });
    return JSON.parse(answer.choices[0].message.content);
  },
  async responses(model) {
    const answer = await client.responses.create({ model, input: "Hello", store: false });
    return answer.output_text;
  },
  async responses_stream(model) {
    const stream = client.responses.stream({ model, input: said("Both"), tools: flat, store: false });
    const kinds = new Set();
    for await (const event of stream) kinds.add(event.type);
    const final = await stream.finalResponse();
    const found = final.output.filter((item) => item.type === "function_call");
    return [
      kinds.has("response.function_call_arguments.delta"),
      Object.fromEntries(found.map((item) => [item.name, JSON.parse(item.arguments)])),
    ];
  },
  error_400: (model) => client.chat.completions.create({ model, messages: said("fail 400") }),
  error_404: (model) => client.chat.completions.create({ model, messages: said("fail 404") }),
  error_500: (model) => client.chat.completions.create({ model, messages: said("fail 500") }),
  async broken(model) {
    const stream = await client.chat.completions.create({ model, messages: said("cut"), stream: true });
    for await (const _ of stream);
    return "ended";
  },
  async cancelled(model) {
    const stream = await client.chat.completions.create({ model, messages: said("hang"), stream: true });
    for await (const _ of stream) break;
    return "left";
  },
});
await report("chat", "embeddings", async () => {
  const answer = await client.embeddings.create({ model: "chat", input: "Hi" });
  return answer.data[0].embedding;
});

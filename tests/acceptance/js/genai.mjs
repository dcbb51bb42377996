// The official Google client for JavaScript.

import { GoogleGenAI } from "@google/genai";
import { forEachModel, key, parameters, pixel, schema, tools, url } from "./scene.mjs";

const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
const offered = [
  { functionDeclarations: tools.map((name) => ({ name, description: name, parametersJsonSchema: parameters })) },
];

await forEachModel({
  async chat(model) {
    const answer = await client.models.generateContent({ model, contents: "Hello" });
    return [answer.text, answer.usageMetadata.totalTokenCount];
  },
  async stream(model) {
    let text = "";
    for await (const chunk of await client.models.generateContentStream({ model, contents: "Hello" })) {
      text += chunk.text ?? "";
    }
    return text;
  },
  async tools(model) {
    const config = { tools: offered };
    const question = { role: "user", parts: [{ text: "think" }] };
    const stream = await client.models.generateContentStream({ model, contents: [question], config });
    const parts = [];
    for await (const chunk of stream) parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    const results = calls.map((call) => ({
      functionResponse: { id: call.id, name: call.name, response: { result: "fine" } },
    }));
    const contents = [question, { role: "model", parts }, { role: "user", parts: results }];
    const again = await client.models.generateContent({ model, contents, config });
    return [Object.fromEntries(calls.map((call) => [call.name, call.args])), again.text];
  },
  async vision(model) {
    const parts = [{ text: "Look" }, { inlineData: { mimeType: "image/png", data: pixel } }];
    return (await client.models.generateContent({ model, contents: [{ role: "user", parts }] })).text;
  },
  async schema(model) {
    const config = { responseMimeType: "application/json", responseJsonSchema: schema };
    return JSON.parse((await client.models.generateContent({ model, contents: "Where", config })).text);
  },
  error_400: (model) => client.models.generateContent({ model, contents: "fail 400" }),
  error_404: (model) => client.models.generateContent({ model, contents: "fail 404" }),
  error_500: (model) => client.models.generateContent({ model, contents: "fail 500" }),
  async broken(model) {
    for await (const _ of await client.models.generateContentStream({ model, contents: "cut" }));
    return "ended";
  },
  async cancelled(model) {
    const stop = new AbortController();
    const config = { abortSignal: stop.signal };
    for await (const _ of await client.models.generateContentStream({ model, contents: "hang", config })) break;
    stop.abort();
    return "left";
  },
});

// Bodies of the known wire formats as turns of a conversation. What is not understood is left to the
// plain text; nothing here is ever more than text.
import { t } from "../strings.js";

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The text of a content, whatever form its format gives it. */
function textOf(content) {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return textOf(content.parts ?? content.text ?? JSON.stringify(content, null, 2));
  return content.map(partText).filter(Boolean).join("\n");
}

function partText(part) {
  if (typeof part === "string") return part;
  if (typeof part.text === "string") return part.text;
  if (typeof part.thinking === "string") return `[${t.log.thinking}] ${part.thinking}`;
  if (part.type === "tool_use") return `[${t.log.toolCall}] ${part.name}(${JSON.stringify(part.input)})`;
  if (part.type === "tool_result") return `[${t.log.toolResult}] ${textOf(part.content)}`;
  if (part.functionCall) return `[${t.log.toolCall}] ${part.functionCall.name}(${JSON.stringify(part.functionCall.args)})`;
  if (part.functionResponse) return `[${t.log.toolResult}] ${JSON.stringify(part.functionResponse.response)}`;
  return `[${part.type ?? Object.keys(part)[0] ?? t.log.part}]`;
}

function turn(message) {
  const calls = (message.tool_calls ?? []).map((one) => `[${t.log.toolCall}] ${one.function?.name}(${one.function?.arguments})`);
  return { role: String(message.role ?? "user"), text: [textOf(message.content ?? message.parts), ...calls].filter(Boolean).join("\n") };
}

function asked(body) {
  const turns = [];
  const system = body.system ?? body.instructions ?? body.systemInstruction;
  if (system) turns.push({ role: "system", text: textOf(system) });
  const messages = body.messages ?? body.contents ?? (Array.isArray(body.input) ? body.input.filter((one) => one.role) : null);
  if (messages) turns.push(...messages.map(turn));
  else if (typeof (body.input ?? body.prompt) === "string") turns.push({ role: "user", text: body.input ?? body.prompt });
  return turns;
}

function answered(body) {
  if (!body) return [];
  if (body.choices) return body.choices.map((one) => turn(one.message ?? { role: "assistant", content: one.text }));
  if (body.candidates) return body.candidates.map((one) => turn({ role: "assistant", ...one.content }));
  if (body.output) return [{ role: "assistant", text: body.output.map((one) => textOf(one.content ?? one)).join("\n") }];
  if (body.content) return [{ role: "assistant", text: textOf(body.content) }];
  return [];
}

/** `[{ role, text }]` of a payload; empty where the bodies are none of a conversation. */
export function conversation(payload) {
  const request = parsed(payload.request);
  if (!request || typeof request !== "object") return [];
  const turns = asked(request);
  if (!turns.length) return [];
  if (payload.text) return [...turns, { role: "assistant", text: payload.text }];
  return [...turns, ...answered(parsed(payload.response))];
}

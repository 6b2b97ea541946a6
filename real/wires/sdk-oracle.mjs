// The vendors' own SDKs as readers of a stream. Reads lines {"wire", "body"} from standard input, `body` in base64, and answers
// each with a line {"text", "calls", "input", "output"}, or {"error"} if the SDK rejects the stream.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

let body = Buffer.alloc(0);
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(body);
  });
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}`;

const openai = new OpenAI({ apiKey: "none", baseURL: `${base}/v1`, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "none", baseURL: base, maxRetries: 0 });
const google = new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: base } });
const messages = [{ role: "user", content: "hi" }];

const readers = {
  async chat() {
    const stream = openai.chat.completions.stream({ model: "m", messages, stream_options: { include_usage: true } });
    const { choices, usage } = await stream.finalChatCompletion();
    const { content, tool_calls: calls = [] } = choices[0].message;
    return {
      text: content ?? "",
      calls: calls.map((call) => [call.id, call.function.name, JSON.parse(call.function.arguments)]),
      input: usage.prompt_tokens,
      output: usage.completion_tokens,
    };
  },
  async responses() {
    const { output, usage } = await openai.responses.stream({ model: "m", input: "hi" }).finalResponse();
    return {
      text: output.flatMap((item) => (item.type === "message" ? item.content.map((part) => part.text) : [])).join(""),
      calls: output
        .filter((item) => item.type === "function_call")
        .map((item) => [item.call_id, item.name, JSON.parse(item.arguments)]),
      input: usage.input_tokens,
      output: usage.output_tokens,
    };
  },
  async messages() {
    const { content, usage } = await anthropic.messages.stream({ model: "m", max_tokens: 9, messages }).finalMessage();
    return {
      text: content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join(""),
      calls: content.filter((block) => block.type === "tool_use").map((block) => [block.id, block.name, block.input]),
      input: usage.input_tokens,
      output: usage.output_tokens,
    };
  },
  async gemini() {
    const answer = { text: "", calls: [], input: 0, output: 0 };
    for await (const chunk of await google.models.generateContentStream({ model: "m", contents: "hi" })) {
      for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
        if (part.functionCall) answer.calls.push([part.functionCall.id, part.functionCall.name, part.functionCall.args]);
        else if (!part.thought) answer.text += part.text ?? "";
      }
      const usage = chunk.usageMetadata;
      if (usage) {
        answer.input = usage.promptTokenCount ?? 0;
        answer.output = (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0);
      }
    }
    return answer;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  body = Buffer.from(asked.body, "base64");
  let answer;
  try {
    answer = await readers[asked.wire]();
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
server.close();
server.closeAllConnections();

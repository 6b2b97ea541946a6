// The client of the MCP SDK for TypeScript over stdio: starts a server, lists its tools, makes calls, and prints what it got as
// JSON.
//
//     mcp-stdio-client.mjs CALLS PROGRAM [ARGUMENT]...
//
// CALLS is a JSON list of pairs: the name of a tool, and its arguments. The server inherits the environment.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [calls, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "nexus-test", version: "1" }, { capabilities: { roots: {} } });
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///a" }] }));
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const progress = [];
const onprogress = (told) => progress.push([told.progress, told.message]);
const { tools } = await client.listTools();
const answers = [];
for (const [name, given] of JSON.parse(calls)) {
    try {
        answers.push(await client.callTool({ name, arguments: given }, undefined, { onprogress }));
    } catch (error) {
        answers.push({ refused: String(error.message) });
    }
}
console.log(JSON.stringify({
    instructions: client.getInstructions(),
    tools,
    answers,
    progress,
}));
await client.close();

// Runs the conformance suite of the Model Context Protocol: `node mcp-conformance.mjs server --url URL ...`.
//
// It names `globSync`, which Node has from version 22 on, and has no use for it against a server. Before that version it
// is given one that finds nothing.
import * as fs from "node:fs";
import { register } from "node:module";
import { fileURLToPath } from "node:url";

const suite = new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url);
if (!("globSync" in fs)) {
    const withGlob = `export * from "node:fs"; export { default } from "node:fs"; export const globSync = () => [];`;
    const hooks = `
        export const resolve = (specifier, context, next) =>
            specifier === "fs" && context.parentURL === ${JSON.stringify(suite.href)}
                ? { url: "data:text/javascript,${encodeURIComponent(withGlob)}", shortCircuit: true }
                : next(specifier, context);`;
    register(`data:text/javascript,${encodeURIComponent(hooks)}`);
}
process.argv[1] = fileURLToPath(suite);
await import(suite.href);

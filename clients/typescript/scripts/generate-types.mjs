// Writes src/api.ts from the OpenAPI document of a server.
//
//   node scripts/generate-types.mjs http://127.0.0.1:8080/openapi.json
//   node scripts/generate-types.mjs openapi.json --check    fails if src/api.ts is not current
//
// Only the families that the client uses are written, with every schema that they reach.

import { readFile, writeFile } from "node:fs/promises";

const TARGET = new URL("../src/api.ts", import.meta.url);
const TAGS = new Set([
  "topics", "messages", "groups", "acknowledgement", "dead letters", "delayed messages", "offsets", "health",
]);
const PLAIN = { string: "string", integer: "number", number: "number", boolean: "boolean", null: "null" };
const HEAD = `// Generated from the server's OpenAPI document by scripts/generate-types.mjs: do not edit.
`;

const [source, flag] = process.argv.slice(2);
if (source === undefined || (flag !== undefined && flag !== "--check")) {
  console.error("usage: node scripts/generate-types.mjs URL_OR_FILE [--check]");
  process.exit(2);
}
const text = generate(await load(source));
if (flag !== "--check") {
  await writeFile(TARGET, text);
} else if ((await readFile(TARGET, "utf8")) !== text) {
  console.error("src/api.ts differs from the server's OpenAPI document: run `npm run types -- URL_OR_FILE`");
  process.exit(1);
}

async function load(place) {
  if (!/^https?:/.test(place)) return JSON.parse(await readFile(place, "utf8"));
  const response = await fetch(place);
  if (!response.ok) throw new Error(`${place} answered ${response.status}, expected an OpenAPI document`);
  return response.json();
}

function generate(document) {
  const operations = [];
  const reached = new Set();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.tags.some((tag) => TAGS.has(tag))) {
        operations.push(operationType(method.toUpperCase(), path, operation, reached));
      }
    }
  }
  const schemas = document.components.schemas;
  const written = new Map();
  for (const name of reached) written.set(name, schemaType(name, schemas[name], reached));
  const types = [...written.keys()].sort().map((name) => written.get(name));
  return [
    HEAD,
    ...types,
    `/** Every request that the client can send: its path, query, body and answer. */
export interface Operations {
${operations.join("\n")}
}
`,
  ].join("\n");
}

function operationType(method, path, operation, reached) {
  const fields = [];
  for (const place of ["path", "query"]) {
    const parameters = (operation.parameters ?? []).filter((each) => each.in === place);
    if (parameters.length === 0) continue;
    const isOptional = parameters.every((each) => !each.required);
    const members = parameters.map(
      (each) => `${each.name}${each.required ? "" : "?"}: ${typeOf(each.schema, reached)}`,
    );
    fields.push(`${place}${isOptional ? "?" : ""}: { ${members.join("; ")} }`);
  }
  const body = operation.requestBody?.content["application/json"].schema;
  if (body) fields.push(`body: ${typeOf(body, reached)}`);
  fields.push(`answer: ${answerType(operation.responses, reached)}`);
  return `  /** ${operation.summary} */\n  "${method} ${path}": { ${fields.join("; ")} };`;
}

function answerType(responses, reached) {
  const status = Object.keys(responses).find((each) => each.startsWith("2"));
  const schema = responses[status]?.content?.["application/json"]?.schema;
  return schema ? typeOf(schema, reached) : "unknown";
}

function schemaType(name, schema, reached) {
  const comment = schema.description ? `/** ${schema.description} */\n` : "";
  if (!schema.properties) return `${comment}export type ${name} = ${typeOf(schema, reached)};\n`;
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(([field, value]) => {
    const about = value.description ? `  /** ${value.description.replaceAll("*/", "*\\/")} */\n` : "";
    const key = /^\w+$/.test(field) ? field : JSON.stringify(field);
    return `${about}  ${key}${required.has(field) ? "" : "?"}: ${typeOf(value, reached)};`;
  });
  return `${comment}export interface ${name} {\n${fields.join("\n")}\n}\n`;
}

function typeOf(schema, reached) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    reached.add(name);
    return name;
  }
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map((each) => typeOf(each, reached)))].join(" | ");
  if (schema.type === "array") return arrayType(schema, reached);
  if (schema.type === "object") {
    const values = schema.additionalProperties;
    return `Record<string, ${values && values !== true ? typeOf(values, reached) : "unknown"}>`;
  }
  return PLAIN[schema.type] ?? "unknown";
}

function arrayType(schema, reached) {
  if (schema.prefixItems) return `[${schema.prefixItems.map((each) => typeOf(each, reached)).join(", ")}]`;
  const item = schema.items ? typeOf(schema.items, reached) : "unknown";
  return /[ |]/.test(item) ? `(${item})[]` : `${item}[]`;
}

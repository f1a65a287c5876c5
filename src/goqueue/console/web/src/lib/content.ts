// What strangers wrote, made fit to look at. Everything here gives text that becomes text nodes:
// there is no markup to break out of. What remains dangerous is what text can do by itself (control
// characters, direction overrides, a megabyte in a line), and that is dealt with here.

const HEX_WIDTH = 16;

const CONTROL_NAMES =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(
    " ",
  );

/** Control characters by their names, direction overrides and the like by their code points. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (found) => {
      const code = found.charCodeAt(0);
      const name = CONTROL_NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
      return `\u27e8${name}\u27e9`;
    },
  );
}

/** The same on one line, cut at a length: for cells of tables. */
export function oneLine(text: string, most = 200): string {
  const cut = text.length > most ? text.slice(0, most) : text;
  const line = visible(cut).replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5");
  return cut.length < text.length ? `${line}\u2026` : line;
}

export function bytesOf(text: string, encoding: "text" | "base64" = "text"): Uint8Array {
  if (encoding === "text") return new TextEncoder().encode(text);
  const raw = atob(text);
  return Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
}

/** Bytes as text, where they are UTF-8. */
export function textOf(data: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

/** Offset, sixteen bytes in hex, and what of them is printable: as `hexdump -C` has it. */
export function hexDump(data: Uint8Array, from = 0): string {
  const lines: string[] = [];
  for (let at = 0; at < data.length; at += HEX_WIDTH) {
    const row = Array.from(data.subarray(at, at + HEX_WIDTH));
    const cells = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = cells.slice(0, 8).join(" ").padEnd(23);
    const right = cells.slice(8).join(" ").padEnd(23);
    const shown = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "\u00b7"));
    lines.push(`${(from + at).toString(16).padStart(8, "0")}  ${left}  ${right}  ${shown.join("")}`);
  }
  return lines.join("\n");
}

type TokenKind = "key" | "string" | "number" | "word" | "mark";
export type Token = { kind: TokenKind; text: string };

export function isJson(text: string): boolean {
  const first = text.trimStart()[0];
  if (first === undefined || !"{[\"-0123456789tfn".includes(first)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * JSON laid out over lines, as tokens to be coloured.
 *
 * It is taken apart as text and not through `JSON.parse`, which would round 12345678901234567890
 * and drop what is there twice: who looks at a message must see what it says. The text is JSON, or the
 * beginning of some.
 */
export function jsonTokens(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /"(?:[^"\\]|\\.)*"?|[-+0-9.eE]+|[a-z]+|[{}[\],:]/g;
  const found = text.match(pattern) ?? [];
  let depth = 0;
  const breakLine = () => tokens.push({ kind: "mark", text: `\n${"  ".repeat(Math.min(depth, 40))}` });
  for (const [at, part] of found.entries()) {
    const next = found[at + 1];
    if (part === "{" || part === "[") {
      tokens.push({ kind: "mark", text: part });
      depth += 1;
      if (next !== "}" && next !== "]") breakLine();
    } else if (part === "}" || part === "]") {
      depth -= 1;
      const before = found[at - 1];
      if (before !== "{" && before !== "[") breakLine();
      tokens.push({ kind: "mark", text: part });
    } else if (part === ",") {
      tokens.push({ kind: "mark", text: "," });
      breakLine();
    } else if (part === ":") {
      tokens.push({ kind: "mark", text: ": " });
    } else {
      tokens.push({ kind: kindOf(part, next), text: visible(part) });
    }
  }
  return tokens;
}

function kindOf(part: string, next: string | undefined): TokenKind {
  if (part.startsWith('"')) return next === ":" ? "key" : "string";
  return /^[-0-9]/.test(part) ? "number" : "word";
}

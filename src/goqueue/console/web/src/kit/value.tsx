// The bytes of a key, a value or a header, whoever wrote them: as text, JSON or hex. They become
// text nodes only, control characters are made visible, and no more is shown than a page can bear.
import { useMemo, useState } from "preact/hooks";
import { bytesOf, hexDump, isJson, jsonTokens, textOf, visible } from "../lib/content";
import { bytes as size } from "../lib/format";
import type { Encoding } from "../lib/types";
import { Segmented } from "./form";
import { Button, CopyButton } from "./parts";

const TEXT_SHOWN = 20_000;
const JSON_SHOWN = 40_000;
const HEX_SHOWN = 4096;
const MORE = 8;

type Mode = "json" | "text" | "hex";

export function ValueViewer({
  label,
  value,
  encoding = "text",
  prefer,
}: {
  /** What it is: "Value", "Key". */
  label: string;
  value: string;
  encoding?: Encoding;
  prefer?: Mode;
}) {
  const data = useMemo(() => bytesOf(value, encoding), [value, encoding]);
  const text = useMemo(() => (encoding === "text" ? value : textOf(data)), [data]);
  const json = useMemo(() => text !== null && isJson(text), [text]);
  const [chosen, setChosen] = useState<Mode | null>(prefer ?? null);
  const [factor, setFactor] = useState(1);
  const best: Mode = json ? "json" : text !== null ? "text" : "hex";
  const mode: Mode = (chosen === "json" && !json) || (chosen === "text" && text === null) || !chosen ? best : chosen;
  const most = (mode === "hex" ? HEX_SHOWN : mode === "json" ? JSON_SHOWN : TEXT_SHOWN) * factor;
  const total = mode === "hex" ? data.length : (text ?? "").length;
  const choices = [
    ...(json ? [{ value: "json", label: "JSON" }] : []),
    ...(text !== null ? [{ value: "text", label: "Text" }] : []),
    { value: "hex", label: "Hex" },
  ];
  return (
    <div class="viewer">
      <div class="viewer-bar">
        <span class="viewer-name">{label}</span>
        <span class="muted num">{size(data.length)}</span>
        <Segmented
          label={`Show ${label.toLowerCase()} as`}
          value={mode}
          onChange={(next) => setChosen(next as Mode)}
          choices={choices}
        />
        <CopyButton text={text ?? value} label={`Copy ${label.toLowerCase()}`} />
      </div>
      <pre class={mode === "hex" ? "code hex" : "code"} tabIndex={0} aria-label={label}>
        {mode === "hex" && hexDump(data.subarray(0, most))}
        {mode === "text" && visible((text ?? "").slice(0, most))}
        {mode === "json" && <Json text={text ?? ""} most={most} />}
      </pre>
      {total > most && (
        <div class="viewer-more">
          <span class="muted">
            {mode === "hex" ? size(most) : `${most.toLocaleString("en")} characters`} of{" "}
            {mode === "hex" ? size(total) : total.toLocaleString("en")} shown
          </span>
          <Button onClick={() => setFactor(factor * MORE)}>Show more</Button>
        </div>
      )}
    </div>
  );
}

/** Laid out and coloured, up to a length of its own text. */
function Json({ text, most = JSON_SHOWN }: { text: string; most?: number }) {
  const shown = useMemo(() => {
    const tokens = jsonTokens(text.slice(0, most));
    const merged: { kind: string; text: string }[] = [];
    for (const token of tokens) {
      const last = merged.at(-1);
      if (last && last.kind === token.kind) last.text += token.text;
      else merged.push({ ...token });
    }
    return merged;
  }, [text, most]);
  return (
    <>
      {shown.map((token, at) =>
        token.kind === "mark" ? token.text : (
          <span key={at} class={`j-${token.kind}`}>
            {token.text}
          </span>
        ),
      )}
    </>
  );
}

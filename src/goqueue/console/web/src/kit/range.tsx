// How far back charts go: the choice is in the address, so that a sent link shows the same.
import { useQueryField } from "../lib/router";
import { Segmented } from "./form";

const MINUTE = 60_000;
const SPANS: Record<string, number> = {
  "5m": 5 * MINUTE,
  "15m": 15 * MINUTE,
  "1h": 60 * MINUTE,
  "6h": 360 * MINUTE,
  "24h": 1440 * MINUTE,
};
const CHOICES = [
  { value: "5m", label: "5 min" },
  { value: "15m", label: "15 min" },
  { value: "1h", label: "1 h" },
  { value: "6h", label: "6 h" },
  { value: "24h", label: "24 h" },
];
const FALLBACK = "15m";
const FINE_MS = 5000;
const COARSE_MS = 30_000;

export type Range = {
  value: string;
  set: (value: string) => void;
  spanMs: number;
  /** How often a chart of it changes. */
  everyMs: number;
  /** "15 min" */
  label: string;
};

export function useRange(): Range {
  const [named, set] = useQueryField("range", FALLBACK);
  const value = named in SPANS ? named : FALLBACK;
  const spanMs = SPANS[value] ?? 0;
  const label = CHOICES.find((each) => each.value === value)?.label ?? value;
  return { value, set, spanMs, label, everyMs: spanMs > 30 * MINUTE ? COARSE_MS : FINE_MS };
}

export function RangePicker({ range }: { range: Range }) {
  return <Segmented label="Time range of the charts" value={range.value} onChange={range.set} choices={CHOICES} />;
}

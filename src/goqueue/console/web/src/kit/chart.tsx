// Charts: lines and counts over time by uPlot, bars and gauges in SVG. Each says in words what it shows.
import { useMemo, useState } from "preact/hooks";
import { time } from "../lib/format";
import { Link } from "../lib/router";
import { useStore } from "../lib/store";
import { clock } from "../lib/theme";
import { Plot } from "./plot";

export { useWidth } from "./plot";

export type Values = readonly (number | null)[];

/** The tones that series of a chart have, in this order unless they say otherwise. */
export type SeriesTone = "one" | "two" | "three" | "bad";

export type Series = { name: string; values: Values; tone?: SeriesTone };

const TONES: readonly SeriesTone[] = ["one", "two", "three", "bad"];

function toneOf(series: Series, at: number): SeriesTone {
  return series.tone ?? TONES[at % TONES.length] ?? "one";
}

type LineChartProps = {
  /** What it shows: "Messages per second". */
  label: string;
  series: readonly Series[];
  /** The moment of the newest value, and how far apart they are. */
  at: number;
  stepMs: number;
  format: (value: number) => string;
  height?: number;
  /** How long the axis of time is; without it, as long as there are values. */
  spanMs?: number;
};

/** Lines over time with axes; the values under the pointer are told, or with the arrow keys. */
export function LineChart({ label, series, at, stepMs, format, height = 168, spanMs }: LineChartProps) {
  const [hover, setHover] = useState<number | null>(null);
  const zone = useStore(clock);
  const length = Math.max(0, ...series.map((each) => each.values.length));
  const from = at - (length - 1) * stepMs;
  const data = useMemo(
    () => [
      Array.from({ length }, (_, index) => (from + index * stepMs) / 1000),
      ...series.map(({ values }) => [...Array<null>(length - values.length).fill(null), ...values]),
    ] as [number[], ...(number | null)[][]],
    [JSON.stringify(series.map((each) => each.values)), from, stepMs],
  );
  if (length === 0) return <p class="muted chart-empty">No history yet: the first values come within seconds.</p>;
  const shown = hover !== null && hover < length ? hover : length - 1;
  const moment = hover === null ? null : time(from + shown * stepMs, zone, { millis: false });
  const told = series.map((each, index) => `${each.name} ${tell(data[index + 1]?.[shown] as number | null, format)}`).join(", ");
  return (
    <div class="chart">
      <div class="legend" aria-hidden="true">
        {series.map((each, index) => (
          <span key={each.name}>
            <i class={`swatch ${toneOf(each, index)}`} />
            {each.name} <b class="num">{tell(data[index + 1]?.[shown] as number | null, format)}</b>
          </span>
        ))}
        {moment && <span class="legend-time num">{moment}</span>}
      </div>
      <Plot
        label={`${label}. ${moment ?? "Newest"}: ${told}`}
        series={series.map((each, index) => ({ token: `--series-${toneOf(each, index)}`, filled: series.length === 1 }))}
        data={data}
        from={spanMs ? (at - spanMs) / 1000 : Math.min(from, at - stepMs) / 1000}
        to={at / 1000}
        format={format}
        height={height}
        onPoint={setHover}
        sync="time"
      />
    </div>
  );
}

function tell(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

export type Column = { from: number; to: number; value: number };

/** How many fall into each stretch of time: upright bars with an axis of time. */
export function TimeBars({
  label,
  columns,
  format,
  height = 120,
  onChoose,
}: {
  label: string;
  columns: readonly Column[];
  format: (value: number) => string;
  height?: number;
  onChoose?: (column: Column) => void;
}) {
  const [hover, setHover] = useState<number | null>(null);
  const zone = useStore(clock);
  const data = useMemo(
    () => [columns.map((each) => each.from / 1000), columns.map((each) => each.value)] as [number[], number[]],
    [JSON.stringify(columns)],
  );
  const first = columns[0];
  const last = columns.at(-1);
  if (!first || !last) return null;
  const pointed = hover === null ? undefined : columns[hover];
  const total = columns.reduce((sum, column) => sum + column.value, 0);
  const choose = (moment: number) => {
    const column = columns.find((each) => each.from <= moment * 1000 && moment * 1000 < each.to);
    if (column) onChoose?.(column);
  };
  return (
    <div class={onChoose ? "chart chooses" : "chart"}>
      <div class="legend" aria-hidden="true">
        {pointed && (
          <span class="legend-time num">
            {time(pointed.from, zone)}: <b>{format(pointed.value)}</b>
          </span>
        )}
      </div>
      <Plot
        label={`${label}. ${format(total)} in all, from ${time(first.from, zone)} to ${time(last.to, zone)}`}
        series={[{ token: "--series-one", bars: true }]}
        data={data}
        from={first.from / 1000}
        to={last.to / 1000}
        format={format}
        height={height}
        onPoint={setHover}
        onChoose={onChoose && choose}
      />
    </div>
  );
}

type Bar = { label: string; value: number; to?: string; tone?: SeriesTone };

/** Bars side by side with their names: which is largest. */
export function Bars({ items, format }: { items: readonly Bar[]; format: (value: number) => string }) {
  const most = Math.max(1e-9, ...items.map((item) => item.value));
  return (
    <ul class="bars">
      {items.map((item) => (
        <li key={item.label}>
          <span class="bar-label">{item.to ? <Link to={item.to}>{item.label}</Link> : item.label}</span>
          <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
            <rect class="bar-back" width="100" height="8" />
            <rect class={`bar-fill ${item.tone ?? "one"}`} width={(item.value / most) * 100} height="8" />
          </svg>
          <span class="num">{format(item.value)}</span>
        </li>
      ))}
    </ul>
  );
}

/** How full something is: a bar with its limit. */
export function Gauge({ share, label, warn = 0.75, bad = 0.9 }: { share: number; label: string; warn?: number; bad?: number }) {
  const held = Math.min(1, Math.max(0, share));
  const tone = held >= bad ? "bad" : held >= warn ? "three" : "one";
  return (
    <svg class="bar gauge" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="bar-back" width="100" height="6" />
      <rect class={`bar-fill ${tone}`} width={held * 100} height="6" />
    </svg>
  );
}

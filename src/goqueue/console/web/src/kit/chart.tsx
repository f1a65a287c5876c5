// Small charts of our own, in SVG. Each says in words what it shows, for those who do not see it.
import { useEffect, useRef, useState } from "preact/hooks";
import { time } from "../lib/format";
import { useStore } from "../lib/store";
import { clock } from "../lib/theme";
import { Link } from "../lib/router";
import { area, line, type Point, runs, ticks, timeTicks } from "./scale";

export type Values = readonly (number | null)[];

/** The tones that series of a chart have, in this order unless they say otherwise. */
export type SeriesTone = "one" | "two" | "three" | "bad";

export type Series = { name: string; values: Values; tone?: SeriesTone };

const TONES: readonly SeriesTone[] = ["one", "two", "three", "bad"];
const LEFT = 48;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 8;
const LABEL = 72;

/** How many moments an axis of time has room for. */
function room(width: number): number {
  return Math.max(1, Math.min(6, Math.floor((width - LEFT) / LABEL)));
}

/** The width that an element has, as it changes. */
export function useWidth<E extends HTMLElement>() {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const found = element.current;
    if (!found) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(found);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}

/** A line without axes, for cells and tiles. */
export function Sparkline({
  values,
  label,
  tone = "one",
  width = 96,
  height = 24,
}: {
  values: Values;
  label: string;
  tone?: SeriesTone;
  width?: number;
  height?: number;
}) {
  const most = highest(values);
  const x = (at: number) => (at / Math.max(1, values.length - 1)) * (width - 2) + 1;
  const y = (value: number) => height - 2 - (value / (most || 1)) * (height - 4);
  return (
    <svg class={`spark ${tone}`} viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={label}>
      {runs(values, x, y).map((points, at) => (
        <g key={at}>
          <path class="fill" d={area(points, height)} />
          <path class="stroke" d={line(points)} />
          <Lone points={points} />
        </g>
      ))}
    </svg>
  );
}

/** A value between gaps: no line leads to it. */
function Lone({ points }: { points: readonly Point[] }) {
  const [only, ...others] = points;
  return only && !others.length ? <circle class="lone" cx={only[0]} cy={only[1]} r="2" /> : null;
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
};

/** Lines over time with axes; the values under the pointer are told, or with the arrow keys. */
export function LineChart({ label, series, at, stepMs, format, height = 168 }: LineChartProps) {
  const [element, width] = useWidth<HTMLDivElement>();
  const [hover, setHover] = useState<number | null>(null);
  const zone = useStore(clock);
  const length = Math.max(0, ...series.map((each) => each.values.length));
  const from = at - (length - 1) * stepMs;
  const levels = ticks(Math.max(0, ...series.map((each) => highest(each.values))));
  const top = levels.at(-1) ?? 1;
  const x = (index: number) => LEFT + (index / Math.max(1, length - 1)) * (width - LEFT - RIGHT);
  const y = (value: number) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  const point = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (width - LEFT - RIGHT);
    setHover(Math.min(length - 1, Math.max(0, Math.round(share * (length - 1)))));
  };
  const step = (event: KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!by) return;
    event.preventDefault();
    setHover((was) => Math.min(length - 1, Math.max(0, (was ?? length - 1) + by)));
  };
  const shown = hover ?? length - 1;
  const told = (index: number) =>
    series.map((each) => `${each.name} ${tell(each.values[index], format)}`).join(", ");
  return (
    <div class="chart" ref={element}>
      <Legend series={series} index={shown} format={format} moment={hover === null ? null : time(from + hover * stepMs, zone, { millis: false })} />
      {width > 0 && length > 0 && (
        <svg
          width={width}
          height={height}
          role="img"
          tabIndex={0}
          aria-label={`${label}. ${hover === null ? "Newest" : time(from + hover * stepMs, zone)}: ${told(shown)}`}
          onMouseMove={point}
          onMouseLeave={() => setHover(null)}
          onKeyDown={step}
          onBlur={() => setHover(null)}
        >
          {levels.map((level) => (
            <g key={level} class="axis">
              <line x1={LEFT} x2={width - RIGHT} y1={y(level)} y2={y(level)} />
              <text x={LEFT - 8} y={y(level) + 4} text-anchor="end">
                {format(level)}
              </text>
            </g>
          ))}
          {timeTicks(from, at, room(width))
            .filter((moment) => x((moment - from) / stepMs) < width - 24 && x((moment - from) / stepMs) > LEFT + 8)
            .map((moment) => (
              <text key={moment} class="axis-time" x={x((moment - from) / stepMs)} y={height - 4} text-anchor="middle">
                {time(moment, zone, { millis: false, day: false }).slice(0, stepMs * length > 600_000 ? 5 : 8)}
              </text>
            ))}
          {series.map((each, index) => (
            <g key={each.name} class={`series ${each.tone ?? TONES[index % TONES.length]}`}>
              {runs(each.values, x, y).map((points, run) => (
                <g key={run}>
                  {series.length === 1 && <path class="fill" d={area(points, y(0))} />}
                  <path class="stroke" d={line(points)} />
                  <Lone points={points} />
                </g>
              ))}
              {hover !== null && typeof each.values[hover] === "number" && (
                <circle cx={x(hover)} cy={y(each.values[hover] as number)} r="3" />
              )}
            </g>
          ))}
          {hover !== null && <line class="cross" x1={x(hover)} x2={x(hover)} y1={TOP} y2={height - BOTTOM} />}
        </svg>
      )}
      {length === 0 && <p class="muted chart-empty">No history yet: the first values come within seconds.</p>}
    </div>
  );
}

function Legend(props: {
  series: readonly Series[];
  index: number;
  format: (value: number) => string;
  moment: string | null;
}) {
  return (
    <div class="legend" aria-hidden="true">
      {props.series.map((each, at) => (
        <span key={each.name}>
          <i class={`swatch ${each.tone ?? TONES[at % TONES.length]}`} />
          {each.name} <b class="num">{tell(each.values[props.index], props.format)}</b>
        </span>
      ))}
      {props.moment && <span class="legend-time num">{props.moment}</span>}
    </div>
  );
}

function tell(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

function highest(values: Values): number {
  return values.reduce<number>((most, value) => (value !== null && value > most ? value : most), 0);
}

export type Bar = { label: string; value: number; to?: string; tone?: SeriesTone };

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
  const [element, width] = useWidth<HTMLDivElement>();
  const zone = useStore(clock);
  const first = columns[0];
  const last = columns.at(-1);
  const levels = ticks(Math.max(0, ...columns.map((column) => column.value)));
  const top = levels.at(-1) ?? 1;
  const y = (value: number) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  const from = first?.from ?? 0;
  const to = last?.to ?? 1;
  const x = (moment: number) => LEFT + ((moment - from) / (to - from)) * (width - LEFT - RIGHT);
  const total = columns.reduce((sum, column) => sum + column.value, 0);
  return (
    <div class="chart" ref={element}>
      {width > 0 && columns.length > 0 && (
        <svg width={width} height={height} role="img" aria-label={`${label}. ${format(total)} in all, from ${time(from, zone)} to ${time(to, zone)}`}>
          {levels.map((level) => (
            <g key={level} class="axis">
              <line x1={LEFT} x2={width - RIGHT} y1={y(level)} y2={y(level)} />
              <text x={LEFT - 8} y={y(level) + 4} text-anchor="end">
                {format(level)}
              </text>
            </g>
          ))}
          {timeTicks(from, to, room(width))
            .filter((moment) => x(moment) < width - 24 && x(moment) > LEFT + 8)
            .map((moment) => (
              <text key={moment} class="axis-time" x={x(moment)} y={height - 4} text-anchor="middle">
                {to - from > 86_400_000 ? time(moment, zone, { day: true, millis: false }).slice(5, 16) : time(moment, zone, { day: false, millis: false }).slice(0, to - from > 600_000 ? 5 : 8)}
              </text>
            ))}
          {columns.map((column) => (
            <rect
              key={column.from}
              class={onChoose ? "column chooses" : "column"}
              x={x(column.from) + 0.5}
              y={y(column.value)}
              width={Math.max(1, x(column.to) - x(column.from) - 1)}
              height={Math.max(0, y(0) - y(column.value))}
              onClick={onChoose ? () => onChoose(column) : undefined}
            >
              <title>{`${time(column.from, zone)}: ${format(column.value)}`}</title>
            </rect>
          ))}
        </svg>
      )}
    </div>
  );
}

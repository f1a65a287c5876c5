// uPlot as a component: it draws, the page around it keeps the words for those who do not see it.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { time, type Zone } from "../lib/format";
import { useStore } from "../lib/store";
import { clock, theme } from "../lib/theme";
import { ticks } from "./scale";

const TICK_WIDTH = 72;
const AXIS_WIDTH = 48;
const AXIS_HEIGHT = 24;
const LEVEL_HEIGHT = 32;

type PlotSeries = {
  /** The colour, as a token: "--series-one". */
  token: string;
  /** Whether the area below the line is coloured. */
  filled?: boolean;
  bars?: boolean;
};

type PlotProps = {
  /** What it shows, for screen readers. */
  label: string;
  series: readonly PlotSeries[];
  /** Moments in seconds, then the values of each series. */
  data: uPlot.AlignedData;
  /** The moments at both ends, in seconds. */
  from: number;
  to: number;
  format: (value: number) => string;
  height: number;
  /** Told which values are pointed at; null for none. */
  onPoint: (index: number | null) => void;
  onChoose?: ((moment: number) => void) | undefined;
  /** Charts of the same key point at the same moment. */
  sync?: string;
};

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

export function Plot(props: PlotProps) {
  const { label, series, data, from, to, height } = props;
  const [element, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(props);
  newest.current = props;
  const zone = useStore(clock);
  const kinds = JSON.stringify(series);
  const isShown = width > 0;
  useEffect(() => {
    if (!element.current || !isShown) return undefined;
    const made = new uPlot(options(newest, width, zone), data, element.current);
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [isShown, kinds, zone]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data, from, to, kinds, zone]);
  useEffect(() => {
    if (isShown) plot.current?.setSize({ width, height });
  }, [width, height]);
  useColours(() => plot.current?.redraw());
  const step = (event: KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    const shown = plot.current;
    if (!by || !shown) return;
    event.preventDefault();
    const last = shown.data[0].length - 1;
    const index = Math.min(last, Math.max(0, (shown.cursor.idx ?? last) + by));
    shown.setCursor({ left: shown.valToPos(shown.data[0][index] ?? 0, "x"), top: 0 });
  };
  return (
    <div
      class="plot"
      ref={element}
      role="img"
      tabIndex={0}
      aria-label={label}
      onKeyDown={step}
      onBlur={() => plot.current?.setCursor({ left: -10, top: -10 })}
    />
  );
}

/** Runs when the colours change: by the switch, or with the system. */
function useColours(run: () => void): void {
  useEffect(() => {
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", run);
    const stop = theme.subscribe(run);
    return () => {
      system.removeEventListener("change", run);
      stop();
    };
  }, []);
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options(props: { current: PlotProps }, width: number, zone: Zone): uPlot.Options {
  const { series, height, sync } = props.current;
  const axis = {
    font: "11px system-ui, sans-serif",
    stroke: () => token("--muted"),
    ticks: { show: false },
  };
  return {
    width,
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    ...(zone === "utc" ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") } : {}),
    cursor: {
      y: false,
      drag: { x: false, y: false, setScale: false },
      points: { size: 6, width: 0 },
      ...(sync ? { sync: { key: sync, setSeries: false } } : {}),
    },
    scales: {
      x: { time: true, range: () => [props.current.from, props.current.to] },
      y: { range: (_, __, most) => [0, ticks(most).at(-1) ?? 1] },
    },
    axes: [
      {
        ...axis,
        size: AXIS_HEIGHT,
        gap: 6,
        space: TICK_WIDTH,
        grid: { show: false },
        values: (_, splits, __, ___, step) => splits.map((moment) => timeLabel(moment, step, zone)),
      },
      {
        ...axis,
        size: AXIS_WIDTH,
        gap: 8,
        space: LEVEL_HEIGHT,
        grid: { stroke: () => token("--line"), width: 1 },
        splits: (_, __, ___, most) => ticks(most),
        values: (_, splits) => splits.map((level) => props.current.format(level)),
      },
    ],
    series: [{}, ...series.map(seriesOptions)],
    hooks: {
      setCursor: [(shown) => props.current.onPoint(shown.cursor.left !== undefined && shown.cursor.left >= 0 ? (shown.cursor.idx ?? null) : null)],
      ready: [
        (shown) => {
          shown.over.addEventListener("click", () => {
            const { left } = shown.cursor;
            if (left !== undefined && left >= 0) props.current.onChoose?.(shown.posToVal(left, "x"));
          });
        },
      ],
    },
  };
}

function seriesOptions({ token: name, filled, bars }: PlotSeries): uPlot.Series {
  const colour = () => token(name);
  const paths = bars && uPlot.paths.bars?.({ size: [1, Infinity], gap: 1, align: 1 });
  if (paths) return { paths, stroke: colour, fill: colour, width: 0, points: { show: false } };
  return {
    stroke: colour,
    width: 1.5,
    ...(filled ? { fill: () => `color-mix(in srgb, ${token(name)} 10%, transparent)` } : {}),
    // A value between gaps has no line to it.
    points: { show: true, size: 4, width: 0, fill: colour, filter: (shown, at) => lone(shown.data[at] ?? []) },
  };
}

function lone(values: ArrayLike<number | null | undefined>): number[] {
  const isKnown = (at: number) => values[at] !== null && values[at] !== undefined;
  return Array.from(values, (_, at) => at).filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}

function timeLabel(seconds: number, step: number, zone: Zone): string {
  const ms = seconds * 1000;
  if (step >= 86_400) return time(ms, zone, { day: true, millis: false }).slice(5, 10);
  return time(ms, zone, { day: false, millis: false }).slice(0, step >= 60 ? 5 : 8);
}

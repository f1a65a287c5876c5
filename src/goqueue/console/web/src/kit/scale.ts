// The arithmetic of charts: nice steps for axes, and paths through values of which some are missing.

/** Round steps from 0 to at least `most`: at most five. */
export function ticks(most: number): number[] {
  if (!(most > 0)) return [0, 1];
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough) ?? 10) * power;
  const found: number[] = [];
  for (let at = 0; at <= Math.ceil(most / step - 1e-9); at += 1) found.push(at * step);
  return found;
}

export type Point = [x: number, y: number];

/** Runs of values without a gap, as points. */
export function runs(
  values: readonly (number | null)[],
  x: (at: number) => number,
  y: (value: number) => number,
): Point[][] {
  const found: Point[][] = [];
  let current: Point[] = [];
  for (const [at, value] of values.entries()) {
    if (value === null || !Number.isFinite(value)) {
      if (current.length) found.push(current);
      current = [];
    } else current.push([x(at), y(value)]);
  }
  if (current.length) found.push(current);
  return found;
}

export function line(points: readonly Point[]): string {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

export function area(points: readonly Point[], base: number): string {
  const first = points[0];
  const last = points.at(-1);
  if (!first || !last) return "";
  return `${line(points)}L${last[0].toFixed(1)} ${base}L${first[0].toFixed(1)} ${base}Z`;
}

/** Round moments for an axis of time, as many as have room. */
export function timeTicks(from: number, to: number, most = 6): number[] {
  const span = to - from;
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800];
  const step = (steps.find((each) => span / (each * 1000) <= most) ?? 2_592_000) * 1000;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

// The arithmetic of charts: nice steps for axes.

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

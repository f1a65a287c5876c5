// A chart of some values of a history, over the range that was chosen.
import type { Values } from "../lib/types";
import { LineChart, type SeriesTone } from "./chart";
import { Bones } from "./parts";
import type { Range } from "./range";

export function HistoryChart<Name extends string>({
  history,
  range,
  series,
  ...rest
}: {
  history: ({ step_ms: number; at: number } & Record<Name, Values>) | undefined;
  range: Range;
  label: string;
  format: (value: number) => string;
  height?: number;
  series: readonly { name: string; of: Name; tone?: SeriesTone }[];
}) {
  if (!history) return <Bones lines={4} />;
  return (
    <LineChart
      {...rest}
      at={history.at}
      stepMs={history.step_ms}
      spanMs={range.spanMs}
      series={series.map(({ of, ...each }) => ({ ...each, values: history[of] }))}
    />
  );
}

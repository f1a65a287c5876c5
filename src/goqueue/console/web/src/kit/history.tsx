// Charts of some values of a history, over the range that was chosen.
import type { Values } from "../lib/types";
import { LineChart, type SeriesTone } from "./chart";
import { Bones, Card } from "./parts";
import type { Range } from "./range";

interface Shown<Name extends string> {
  history: ({ step_ms: number; at: number } & Record<Name, Values>) | undefined;
  range: Range;
  label: string; // what is shown; the range is added
  format: (value: number) => string;
  height?: number;
  series: readonly { name: string; of: Name; tone?: SeriesTone }[];
}

export function HistoryCard<Name extends string>({ title, ...chart }: { title: string } & Shown<Name>) {
  return (
    <Card title={title}>
      <HistoryChart {...chart} />
    </Card>
  );
}

export function HistoryChart<Name extends string>({ history, range, series, label, ...rest }: Shown<Name>) {
  if (!history) return <Bones lines={4} />;
  return (
    <LineChart
      {...rest}
      label={`${label} over the last ${range.label}`}
      at={history.at}
      stepMs={history.step_ms}
      spanMs={range.spanMs}
      series={series.map(({ of, ...each }) => ({ ...each, values: history[of] }))}
    />
  );
}

// What was published to a topic and consumed from it over time.
import { HistoryChart } from "../kit/history";
import { Card, Loaded } from "../kit/parts";
import { RangePicker, useRange } from "../kit/range";
import { api, path } from "../lib/api";
import { bytesPerSecond, perSecond } from "../lib/format";
import { useResource } from "../lib/resource";
import type { TopicHistory } from "../lib/types";

export function TopicCharts({ topic }: { topic: string }) {
  const range = useRange();
  const history = useResource(
    (signal) => api.get<TopicHistory>(path("topics", topic, "history"), { signal, query: { range: range.value } }),
    [topic, range.value],
    { everyMs: range.everyMs },
  );
  return (
    <section aria-label="Charts" class="stack">
      <div class="range-head">
        <RangePicker range={range} />
      </div>
      <Loaded from={history}>
        {(found) => (
          <div class="grid-2">
            <Card title="Messages">
              <HistoryChart
                history={found}
                range={range}
                label={`Messages per second over the last ${range.label}`}
                format={perSecond}
                series={[
                  { name: "Published", of: "published_per_s" },
                  { name: "Consumed", of: "consumed_per_s" },
                ]}
              />
            </Card>
            <Card title="Bytes">
              <HistoryChart
                history={found}
                range={range}
                label={`Bytes per second over the last ${range.label}`}
                format={bytesPerSecond}
                series={[
                  { name: "Published", of: "bytes_in_per_s" },
                  { name: "Consumed", of: "bytes_out_per_s" },
                ]}
              />
            </Card>
          </div>
        )}
      </Loaded>
    </section>
  );
}

// What was published to a topic and consumed from it over time.
import { HistoryCard } from "../kit/history";
import { Loaded } from "../kit/parts";
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
            <HistoryCard
              title="Messages"
              history={found}
              range={range}
              label="Messages per second"
              format={perSecond}
              series={[
                { name: "Published", of: "published_per_s" },
                { name: "Consumed", of: "consumed_per_s" },
              ]}
            />
            <HistoryCard
              title="Bytes"
              history={found}
              range={range}
              label="Bytes per second"
              format={bytesPerSecond}
              series={[
                { name: "Published", of: "bytes_in_per_s" },
                { name: "Consumed", of: "bytes_out_per_s" },
              ]}
            />
          </div>
        )}
      </Loaded>
    </section>
  );
}

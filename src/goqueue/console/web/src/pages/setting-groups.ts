// The settings of a topic by what they are about. Those that were changed come first, as a group of their own.
import type { Setting } from "./topic-settings";

/** The first group with a fitting beginning takes a setting; Kafka's names are kept. */
const GROUPS: [title: string, names: readonly string[]][] = [
  ["Retention and compaction", ["retention.", "cleanup.", "delete.retention", "min.cleanable", "min.compaction", "max.compaction", "file.delete"]],
  ["Durability", ["goqueue.fsync", "flush."]],
  ["Replication", ["min.insync", "unclean.", "follower.", "leader."]],
  ["Delivery", ["goqueue.delay", "goqueue.ttl", "message.ttl", "goqueue.kafka.headers"]],
  ["Messages and schemas", ["max.message", "message.timestamp", "compression.", "goqueue.schema", "goqueue.key", "confluent."]],
  ["Tracing", ["goqueue.trace"]],
  ["Storage", ["segment.", "index.", "preallocate", "remote.", "local."]],
];

type SettingGroup = { title: string; settings: Setting[] };

export function groupedSettings(settings: readonly Setting[]): SettingGroup[] {
  const changed = settings.filter((each) => each.source === "topic");
  const groups = new Map<string, Setting[]>(GROUPS.map(([title]) => [title, []]));
  const others: Setting[] = [];
  for (const each of settings) {
    if (each.source === "topic") continue;
    const group = GROUPS.find(([, names]) => names.some((name) => each.name.startsWith(name)));
    (group ? groups.get(group[0]) : others)?.push(each);
  }
  return [
    { title: "Changed for this topic", settings: changed },
    ...[...groups].map(([title, some]) => ({ title, settings: some })),
    { title: "Other", settings: others },
  ].filter((group) => group.settings.length > 0);
}

// The dialog that makes a topic.
import { useState } from "preact/hooks";
import { Dialog } from "../kit/dialog";
import { Form, SelectField, TextField } from "../kit/form";
import { toast } from "../kit/toasts";
import { api, path, wholeNumber } from "../lib/api";
import { many } from "../lib/format";
import { go } from "../lib/router";
import type { TopicInfo } from "../lib/types";

const RETENTION = [
  { value: "", label: "The server's default" },
  { value: "1", label: "1 hour" },
  { value: "24", label: "1 day" },
  { value: "168", label: "7 days" },
  { value: "720", label: "30 days" },
  { value: "-1", label: "Unlimited" },
];

const CLEANUP = [
  { value: "delete", label: "Delete by retention" },
  { value: "compact", label: "Compact to the newest of each key" },
  { value: "compact,delete", label: "Both" },
];

export function NewTopic({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [retention, setRetention] = useState("");
  const [cleanup, setCleanup] = useState("delete");
  const make = async () => {
    const made = await api.post<TopicInfo>("/topics", {
      name,
      ...(partitions.trim() ? { num_partitions: wholeNumber(partitions, "num_partitions") } : {}),
      ...(retention ? { retention_hours: Number(retention) } : {}),
      ...(cleanup === "delete" ? {} : { settings: { "cleanup.policy": cleanup } }),
    });
    toast.ok(`Topic ${made.name} was created with ${many(made.num_partitions, "partition")}.`);
    onClose();
    go(path("topics", made.name));
  };
  return (
    <Dialog title="New topic" onClose={onClose}>
      <Form verb="Create topic" onSubmit={make} onCancel={onClose}>
        <TextField
          label="Name"
          name="name"
          mono
          autofocus
          value={name}
          onChange={setName}
          hint="Letters, digits, dots, underscores and hyphens."
        />
        <div class="form-grid">
          <TextField
            label="Partitions"
            name="num_partitions"
            inputMode="numeric"
            value={partitions}
            onChange={setPartitions}
            placeholder="default"
            hint="Can be increased later, not reduced."
          />
          <SelectField
            label="Retention"
            name="retention_hours"
            value={retention}
            onChange={setRetention}
            choices={RETENTION}
          />
        </div>
        <SelectField
          label="Clean-up"
          name="settings"
          value={cleanup}
          onChange={setCleanup}
          choices={CLEANUP}
        />
      </Form>
    </Dialog>
  );
}

// One dead letter beside the list: why it died, where it came from, and what it holds.
import { Badge, Button, Card, Facts, IconButton, Lines, Loaded, Note, Plain, Time } from "../kit/parts";
import { ValueViewer } from "../kit/value";
import { api, path } from "../lib/api";
import { bytes, whole } from "../lib/format";
import { useResource } from "../lib/resource";
import { Link, setQueryFields } from "../lib/router";
import type { LetterDetail } from "./letters";

export function LetterCard({
  topic,
  place,
  onRedrive,
  onEdit,
  onDelete,
}: {
  topic: string;
  place: string;
  onRedrive: () => void;
  onEdit: (letter: LetterDetail) => void;
  onDelete: () => void;
}) {
  const [partition = "0", offset = "0"] = place.split("/");
  const letter = useResource(
    (signal) => api.get<LetterDetail>(path("topics", topic, "dlq", partition, offset), { signal }),
    [topic, place],
  );
  const found = letter.data;
  const isGone = !found || found.is_redriven;
  return (
    <Card
      title={`Letter ${place}`}
      actions={<IconButton label="Close letter" icon="close" onClick={() => setQueryFields({ letter: "" })} />}
    >
      <div class="stack">
        <div class="actions">
          <Button icon="send" onClick={onRedrive} disabled={isGone}>
            Redrive
          </Button>
          <Button icon="eraser" onClick={() => found && onEdit(found)} disabled={isGone}>
            Edit and redrive…
          </Button>
          <Button kind="danger" icon="trash" onClick={onDelete} disabled={isGone}>
            Delete
          </Button>
        </div>
        <Loaded from={letter}>{(data) => <Detail letter={data} />}</Loaded>
      </div>
    </Card>
  );
}

function Detail({ letter }: { letter: LetterDetail }) {
  const { source_topic: source, source_partition: partition, source_offset: offset } = letter;
  return (
    <>
      {letter.is_redriven && <Note>This dead letter was redriven or deleted and is no longer listed.</Note>}
      <div class="cause">
        <Badge tone="bad">{letter.reason ?? "unknown"}</Badge>
        <Lines text={letter.error ?? "No error was given."} most={8000} />
      </div>
      {letter.value !== null && <ValueViewer label="Value" value={letter.value} encoding={letter.encoding} />}
      {letter.key !== null && <ValueViewer label="Key" value={letter.key} encoding={letter.key_encoding} />}
      {letter.headers.length > 0 && (
        <Facts
          items={letter.headers.map((header) => [
            <Plain text={header.name} mono />,
            <>
              {header.encoding === "base64" && <Badge>bytes</Badge>} <Plain text={header.value ?? "–"} mono most={500} />
            </>,
          ])}
        />
      )}
      <Facts
        items={[
          [
            "Original message",
            source ? (
              <Link to={`${path("topics", source)}?tab=messages&partition=${partition}&offset=${offset}`}>
                {source} {partition}/{offset}
              </Link>
            ) : (
              "–"
            ),
          ],
          ["Trace", source ? <Link to={path("traces", "message", source, String(partition), String(offset))}>Trace of the original message</Link> : "–"],
          ["Group", letter.group ? <Link to={path("groups", letter.group)}>{letter.group}</Link> : "–"],
          ["Last member", <Plain text={letter.member ?? "–"} />],
          ["Deliveries", whole(letter.deliveries)],
          ["First delivery", letter.first_delivery ? <Time ms={letter.first_delivery} /> : "–"],
          ["Last delivery", letter.last_delivery ? <Time ms={letter.last_delivery} /> : "–"],
          ["Dead-lettered", <Time ms={letter.died_at} />],
          ["Earlier redrives", whole(letter.redriven_count)],
          ["Priority", letter.priority],
          ["Size", bytes(letter.size_bytes)],
        ]}
      />
    </>
  );
}

// Being a member of a group: join, heartbeats, joining again, leave. Both kinds of groups use it.

import { randomUUID } from "node:crypto";

import type { JoinBody, MemberAnswer, Operations, PollAnswer } from "./api.js";
import { ApiError } from "./errors.js";
import { mayRetry } from "./retry.js";
import type { Transport } from "./transport.js";

/** The codes by which the server says that the member is no longer one: join again. */
const MEMBER_IS_GONE: ReadonlySet<string> = new Set([
  "unknown_member", "fenced_generation", "stale_generation", "unknown_group", "rebalance_in_progress",
]);

type PollQuery = Omit<Operations["GET /groups/{group}/poll"]["query"], "member_id">;

export class Membership {
  readonly #transport: Transport;
  readonly #join: JoinBody;
  readonly memberId: string;
  #heartbeats: NodeJS.Timeout | undefined;
  #partitions: Record<string, number[]> = {};
  #isJoined = false;

  constructor(transport: Transport, readonly group: string, { client_id = "", ...join }: JoinBody) {
    this.#transport = transport;
    // Chosen here, so that a join whose answer was lost can be sent again as the same member.
    this.memberId = `${client_id === "" ? "typescript" : client_id}-${randomUUID()}`;
    this.#join = { ...join, client_id, member_id: this.memberId };
  }

  /** Whether a partition is this member's, by the newest answer. */
  owns(topic: string, partition: number): boolean {
    return this.#partitions[topic]?.includes(partition) ?? false;
  }

  /** Join unless that was done. */
  async join(signal?: AbortSignal): Promise<void> {
    if (this.#isJoined) return;
    const joined = await this.#transport.call(
      "POST /groups/{group}/join",
      { path: { group: this.group }, body: this.#join },
      { repeat: "repeatable", signal },
    );
    this.#isJoined = true;
    this.#take(joined);
    clearInterval(this.#heartbeats);
    this.#heartbeats = setInterval(() => void this.#heartbeat(), joined.heartbeat_interval_ms);
    this.#heartbeats.unref();
  }

  /** Poll once. An answer that was lost is not asked for again: the caller decides. */
  async poll(query: PollQuery & { timeout: number }, signal?: AbortSignal): Promise<PollAnswer> {
    const answer = await this.#transport.call(
      "GET /groups/{group}/poll",
      { path: { group: this.group }, query: { ...query, member_id: this.memberId } },
      { repeat: "never", waitMs: query.timeout, signal },
    );
    this.#partitions = answer.partitions;
    return answer;
  }

  async #heartbeat(): Promise<void> {
    try {
      this.#take(
        await this.#transport.call(
          "POST /groups/{group}/heartbeat",
          { path: { group: this.group }, body: { member_id: this.memberId } },
          { repeat: "never" },
        ),
      );
    } catch (error) {
      this.survives(error); // whatever else is wrong, the next poll meets it and tells the caller
    }
  }

  /** Whether to carry on after this error: it passes by itself, or joining again repairs it. */
  survives(error: unknown): boolean {
    if (error instanceof ApiError && MEMBER_IS_GONE.has(error.code)) {
      this.#isJoined = false;
      return true;
    }
    return mayRetry(error, "repeatable");
  }

  /** Stop the heartbeats and leave: what this member holds goes to others at once. */
  async leave(): Promise<void> {
    clearInterval(this.#heartbeats);
    if (!this.#isJoined) return;
    this.#isJoined = false;
    const request = { path: { group: this.group }, body: { member_id: this.memberId } };
    try {
      await this.#transport.call("POST /groups/{group}/leave", request, { repeat: "repeatable" });
    } catch (error) {
      if (!this.survives(error)) throw error; // gone already, or its session timeout removes it
    }
  }

  #take(answer: MemberAnswer): void {
    this.#partitions = answer.partitions;
  }
}

// Topics: create, list, describe, configure, grow, delete.

import type { TopicInfo } from "./api.js";
import { ConflictError } from "./errors.js";
import type { Transport } from "./transport.js";

/** Settings by their Kafka names, such as `retention.ms`. */
export type TopicSettings = Record<string, string | number | boolean>;

export interface NewTopic {
  partitions?: number;
  replicationFactor?: number;
  settings?: TopicSettings;
}

export class Topics {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async create(name: string, { partitions, replicationFactor, settings }: NewTopic = {}): Promise<TopicInfo> {
    const body = {
      name,
      ...(partitions === undefined ? {} : { num_partitions: partitions }),
      ...(replicationFactor === undefined ? {} : { replication_factor: replicationFactor }),
      ...(settings === undefined ? {} : { settings }),
    };
    return this.#transport.call("POST /topics", { body });
  }

  /** Create the topic unless it exists; one that exists is left as it is. */
  async ensure(name: string, topic: NewTopic = {}): Promise<TopicInfo> {
    try {
      return await this.create(name, topic);
    } catch (error) {
      if (error instanceof ConflictError && error.code === "topic_exists") return this.get(name);
      throw error;
    }
  }

  /** The names of all topics. */
  async list(): Promise<string[]> {
    return (await this.#transport.call("GET /topics", {})).topics;
  }

  async get(topic: string): Promise<TopicInfo> {
    return this.#transport.call("GET /topics/{topic}", { path: { topic } });
  }

  /** Change settings; null restores the default. */
  async configure(topic: string, settings: Record<string, string | number | boolean | null>): Promise<TopicInfo> {
    return this.#transport.call("PATCH /topics/{topic}", { path: { topic }, body: { settings } });
  }

  /** Add partitions until there are so many. */
  async grow(topic: string, partitions: number): Promise<TopicInfo> {
    return this.#transport.call("POST /topics/{topic}/partitions", { path: { topic }, body: { count: partitions } });
  }

  /** Delete the topic with its messages. */
  async delete(topic: string): Promise<void> {
    await this.#transport.call("DELETE /topics/{topic}", { path: { topic } });
  }
}

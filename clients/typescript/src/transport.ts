// Requests and answers: addresses, the API key, timeouts, retries. It knows no operation by name.

import { setTimeout as sleep } from "node:timers/promises";

import type { Operations } from "./api.js";
import { ApiError, apiError, ConnectionError, InvalidArgumentError, type Problem } from "./errors.js";
import { backoffMs, mayRetry, retryAfterMs, type Repeat, type RetryOptions } from "./retry.js";

export interface ClientOptions {
  /** One address or several nodes of a cluster, such as `http://127.0.0.1:8080`. */
  addresses: string | readonly string[];
  /** Sent as `X-API-Key`. */
  apiKey?: string;
  retry?: RetryOptions;
  /** How long an answer may take, beside what a poll waits. Default 30000. */
  requestTimeoutMs?: number;
}

/** What the operation takes, without its answer. */
export type Request<O extends keyof Operations> = Omit<Operations[O], "answer">;

export interface CallOptions {
  repeat?: Repeat;
  /** What the server may wait for before it answers. */
  waitMs?: number;
  signal?: AbortSignal | undefined;
}

interface Parts {
  path?: Record<string, string | number>;
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
}

/** Failures before a connection was there: the server has seen nothing of the request. */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT",
]);

export class Transport {
  readonly #addresses: readonly string[];
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly retry: Required<RetryOptions>;
  /** Which address is asked; moves on when that one cannot answer. */
  #current = 0;

  constructor(options: ClientOptions) {
    this.#addresses = checkedAddresses(options.addresses);
    this.#headers = options.apiKey === undefined ? {} : { "x-api-key": checkedKey(options.apiKey) };
    this.#timeoutMs = atLeast(1, options.requestTimeoutMs ?? 30_000, "requestTimeoutMs");
    const { attempts = 5, backoffMs = 100, maxBackoffMs = 10_000 } = options.retry ?? {};
    this.retry = {
      attempts: atLeast(1, attempts, "retry.attempts"),
      backoffMs: atLeast(0, backoffMs, "retry.backoffMs"),
      maxBackoffMs: atLeast(0, maxBackoffMs, "retry.maxBackoffMs"),
    };
  }

  /** Send a request, again where that is safe and may help, and return the answer. */
  async call<O extends keyof Operations>(
    operation: O,
    request: Request<O>,
    options: CallOptions = {},
  ): Promise<Operations[O]["answer"]> {
    const repeat = options.repeat ?? (operation.startsWith("GET ") ? "repeatable" : "once");
    for (let failures = 1; ; failures += 1) {
      try {
        return (await this.#send(operation, request as Parts, options)) as Operations[O]["answer"];
      } catch (error) {
        if (failures >= this.retry.attempts || !mayRetry(error, repeat)) throw error;
        await this.pause(failures, error, options.signal);
      }
    }
  }

  /** Wait after so many failures; rejects if the signal is aborted. */
  async pause(failures: number, error: unknown, signal?: AbortSignal): Promise<void> {
    const waitMs = backoffMs(failures, error, this.retry, Math.random());
    await sleep(waitMs, undefined, signal ? { signal } : {});
  }

  async #send(operation: string, parts: Parts, options: CallOptions): Promise<unknown> {
    const [method = "", template = ""] = operation.split(" ");
    const asked = this.#current;
    const address = this.#addresses[asked] as string;
    const limit = AbortSignal.timeout(this.#timeoutMs + (options.waitMs ?? 0));
    const { signal } = options;
    try {
      const response = await fetch(address + target(template, parts), {
        method,
        headers: parts.body === undefined ? this.#headers : { ...this.#headers, "content-type": "application/json" },
        body: parts.body === undefined ? null : JSON.stringify(parts.body),
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
        redirect: "error",
      });
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      throw refusal(response, text);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      const failure = error instanceof ApiError ? error : connectionError(error, address);
      if (failure instanceof ConnectionError || failure.status === 503) this.#moveOn(asked);
      throw failure;
    }
  }

  /** Ask the next address, unless another request has moved on already. */
  #moveOn(asked: number): void {
    if (this.#current === asked) this.#current = (asked + 1) % this.#addresses.length;
  }
}

function target(template: string, { path = {}, query = {} }: Parts): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(path[name])));
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? filled : `${filled}?${text}`;
}

function refusal(response: Response, text: string): ApiError {
  const waitMs = retryAfterMs(response.headers.get("retry-after"), Date.now());
  const { status } = response;
  let problem: Partial<Problem> = {};
  try {
    problem = JSON.parse(text) as Partial<Problem>;
  } catch {
    // a proxy's answer, not the server's
  }
  const detail = problem.detail ?? `the server answered ${status} without an explanation`;
  return apiError({ ...problem, status, detail, code: problem.code ?? `http_${status}` }, waitMs);
}

function connectionError(error: unknown, address: string): ConnectionError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const code = (cause as { code?: unknown } | null)?.code;
  const text = cause instanceof Error && cause.message !== "" ? cause.message : String(code ?? cause);
  return new ConnectionError(
    `no answer from ${address}: ${text}; expected a running server, check the address and the network`,
    !NEVER_CONNECTED.has(code),
    { cause: error },
  );
}

function checkedAddresses(given: string | readonly string[]): readonly string[] {
  const addresses = typeof given === "string" ? [given] : given;
  if (!Array.isArray(addresses) || addresses.length === 0) {
    throw new InvalidArgumentError("no address was given: expected at least one, such as http://127.0.0.1:8080");
  }
  return addresses.map((each: string) => {
    if (!URL.canParse(each) || !/^https?:$/.test(new URL(each).protocol)) {
      throw new InvalidArgumentError(`address ${JSON.stringify(each)} is no URL: expected http://HOST:PORT or https://HOST:PORT`);
    }
    return each.replace(/\/+$/, "");
  });
}

function checkedKey(key: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new InvalidArgumentError("apiKey is empty or has blanks in it: expected a key as `goqueue key create` prints it");
}

/** A number with a lower bound, or an error that names the option. */
export function atLeast(least: number, value: number, name: string): number {
  if (Number.isFinite(value) && value >= least) return value;
  throw new InvalidArgumentError(`${name} is ${value}: expected a number of at least ${least}`);
}

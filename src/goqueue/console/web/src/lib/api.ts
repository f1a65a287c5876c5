// The broker's HTTP API, as the console uses it: JSON in, JSON out, errors as the problems that the
// broker itself words.

/** Why a request came to nothing. `message` is the broker's own text, made for people. */
export class Problem extends Error {
  override name = "Problem";

  constructor(
    message: string,
    /** The HTTP status, or 0 when nobody answered. */
    readonly status: number,
    /** Stable, for programs: `unknown_topic`. */
    readonly code: string,
    /** What in the request is at fault, where the broker names it: `messages[0].key`. */
    readonly field: string | null = null,
    readonly requestId: string | null = null,
  ) {
    super(message);
  }

  /** Nobody answered: the broker is away, or the network. */
  get isAway(): boolean {
    return this.status === 0;
  }
}

/** What requests carry beside the cookie of the session, and who is told that it no longer counts. */
export const credentials: { csrfToken: string | null; onRefused: () => void } = {
  csrfToken: null,
  onRefused: () => undefined,
};

export type Query = Record<string, string | number | boolean | null | undefined>;

type Options = { query?: Query | undefined; signal?: AbortSignal | undefined };

/** Joins parts of a path, each of them escaped: `path("topics", name, "messages")`. */
export function path(...parts: (string | number)[]): string {
  return "/" + parts.map((part) => encodeURIComponent(String(part))).join("/");
}

export function withQuery(at: string, query: Query | undefined): string {
  if (!query) return at;
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    fields.set(name, String(value));
  }
  const text = fields.toString();
  return text ? `${at}?${text}` : at;
}

export const api = {
  get: <T>(at: string, options: Options = {}) => call<T>("GET", at, undefined, options),
  post: <T>(at: string, body: unknown, options: Options = {}) => call<T>("POST", at, body, options),
  put: <T>(at: string, body: unknown, options: Options = {}) => call<T>("PUT", at, body, options),
  patch: <T>(at: string, body: unknown, options: Options = {}) =>
    call<T>("PATCH", at, body, options),
  delete: <T>(at: string, options: Options = {}) => call<T>("DELETE", at, undefined, options),
};

async function call<T>(method: string, at: string, body: unknown, options: Options): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const request: RequestInit = { method, headers };
  if (options.signal) request.signal = options.signal;
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  if (method !== "GET" && credentials.csrfToken) headers["X-CSRF-Token"] = credentials.csrfToken;
  let response: Response;
  let text: string;
  try {
    response = await fetch(withQuery(at, options.query), request);
    text = await response.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("Cannot reach the broker.", 0, "away");
  }
  const found = parsed(text);
  if (response.status === 401 && at !== "/session") credentials.onRefused();
  if (!response.ok) throw problemOf(response, found);
  return found as T;
}

function parsed(text: string): unknown {
  if (!text) return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function problemOf(response: Response, body: unknown): Problem {
  const fields = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const said = fields["detail"] ?? fields["error"] ?? fields["message"];
  return new Problem(
    typeof said === "string" && said ? said : `${response.status} ${response.statusText}`.trim(),
    response.status,
    String(fields["code"] ?? fields["error_code"] ?? response.status),
    typeof fields["field"] === "string" ? fields["field"] : null,
    typeof fields["request_id"] === "string" ? fields["request_id"] : null,
  );
}

/** What a field says as a whole number; else the problem of that field. */
export function wholeNumber(text: string, field: string): number {
  const found = Number(text.trim());
  if (text.trim() && Number.isInteger(found)) return found;
  throw new Problem("Expected a whole number.", 400, "invalid_field", field);
}

/** What <input type="datetime-local"> holds, in milliseconds; else the problem of that field. */
export function moment(text: string, field: string): number {
  const found = new Date(text).getTime();
  if (!Number.isNaN(found)) return found;
  throw new Problem("Expected a date and a time.", 400, "invalid_field", field);
}

/** Whatever was thrown, as a problem that can be shown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(error instanceof Error ? error.message : String(error), -1, "console");
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

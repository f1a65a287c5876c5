// What can go wrong. Every error of this package is a GoQueueError.

/** The body of a refusal (RFC 9457). */
export interface Problem {
  status: number;
  code: string;
  detail: string;
  retriable?: boolean;
  field?: string | null;
  request_id?: string | null;
}

export class GoQueueError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An option or an argument that the client refuses before it sends anything. */
export class InvalidArgumentError extends GoQueueError {}

/** The request got no answer: no connection, a lost one, or a timeout. */
export class ConnectionError extends GoQueueError {
  constructor(
    message: string,
    /** False if no connection was made, so that the server cannot have seen the request. */
    readonly maybeSent: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The server refused the request. */
export class ApiError extends GoQueueError {
  /** The HTTP status. */
  readonly status: number;
  /** Stable: programs may rely on it. */
  readonly code: string;
  /** The field at fault, where there is one. */
  readonly field: string | undefined;
  /** The id under which the server's log has the request. */
  readonly requestId: string | undefined;
  /** Whether the server says that a retry may succeed. */
  readonly retriable: boolean;

  constructor(
    problem: Problem,
    /** How long the server asks to wait before a retry. */
    readonly retryAfterMs?: number,
  ) {
    super(problem.detail);
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field ?? undefined;
    this.requestId = problem.request_id ?? undefined;
    this.retriable = problem.retriable ?? false;
  }
}

/** 400, 413, 415, 416, 422: the request is wrong as it stands. */
export class InvalidRequestError extends ApiError {}
/** 401: no API key, or a wrong one. */
export class AuthenticationError extends ApiError {}
/** 403: the key has no right to do this. */
export class AuthorizationError extends ApiError {}
/** 404: no such topic, group, member or receipt. */
export class NotFoundError extends ApiError {}
/** 409: it exists already, or has changed meanwhile. */
export class ConflictError extends ApiError {}
/** 429: too much; `retryAfterMs` says when to try again. */
export class RateLimitError extends ApiError {}
/** 503: the server cannot at the moment. */
export class UnavailableError extends ApiError {}

/** Some messages of a publish were refused; the others are stored. */
export class PublishError extends GoQueueError {
  constructor(
    message: string,
    /** One result per message, in order: what was stored, or the error. */
    readonly results: readonly ({ partition: number; offset: number } | ApiError)[],
  ) {
    super(message);
  }
}

const BY_STATUS: Readonly<Record<number, typeof ApiError>> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: AuthorizationError,
  404: NotFoundError,
  409: ConflictError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  416: InvalidRequestError,
  422: InvalidRequestError,
  429: RateLimitError,
  503: UnavailableError,
};

/** The error of a refusal, in the class of its status. */
export function apiError(problem: Problem, retryAfterMs?: number): ApiError {
  return new (BY_STATUS[problem.status] ?? ApiError)(problem, retryAfterMs);
}

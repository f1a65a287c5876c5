// Numbers, sizes and times as people read them. No function here knows of a component.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"] as const;
const COUNT_UNITS = ["", "k", "M", "G", "T"] as const;

/** Nothing to tell. */
export const NONE = "–";

/** A whole number with its thousands apart: 1,234,567. */
export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : WHOLE.format(value);
}

/** A count for small places: 1.2k, 34M. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return scaled(value, 1000, COUNT_UNITS, "");
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return scaled(value, 1024, BYTE_UNITS, " ");
}

/** A count with its word: 1 message, 2 messages. */
export function many(value: number, one: string, more = `${one}s`): string {
  return `${whole(value)} ${value === 1 ? one : more}`;
}

/** A rate with as many digits as matter. */
export function perSecond(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value !== 0 && Math.abs(value) < 10) return `${trimmed(value, fraction(value))}/s`;
  return `${count(Math.round(value))}/s`;
}

export function bytesPerSecond(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : `${bytes(Math.round(value))}/s`;
}

/** A number of the API that may be a latency: 0.42 ms, 12 ms, 1.5 s. */
export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value < 10) return `${trimmed(value, 2)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  return duration(value);
}

/** How long, in the two largest units: 3 d 4 h, 2 m 10 s, 1.5 s. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE;
  const span = Math.abs(ms);
  const sign = ms < 0 ? "−" : "";
  if (span < 1000) return `${sign}${Math.round(span)} ms`;
  const seconds = span / 1000;
  if (seconds < 10) return `${sign}${trimmed(seconds, 1)} s`;
  if (seconds < 59.5) return `${sign}${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return sign + two(minutes, "m", Math.round(seconds) % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return sign + two(hours, "h", minutes % 60, "m");
  return sign + two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** A setting of the broker that is a duration in milliseconds; negative is without end. */
export function settingDuration(ms: number): string {
  return ms < 0 ? "unlimited" : duration(ms);
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return NONE;
  return `${trimmed(share * 100, share < 0.1 ? 1 : 0)} %`;
}

/** How long ago, or in how long: `3 m ago`, `in 2 h 5 m`. */
export function ago(ms: number, nowMs: number): string {
  const span = nowMs - ms;
  if (Math.abs(span) < 1000) return "now";
  return span > 0 ? `${duration(span)} ago` : `in ${duration(-span)}`;
}

export type Zone = "local" | "utc";

/** 2026-01-31 12:00:00.123, in the zone; the day is left out when it is today. */
export function time(ms: number, zone: Zone, options: { day?: boolean; millis?: boolean } = {}): string {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const parts = partsOf(at, zone);
  const clock = `${parts.clock}${options.millis === false ? "" : parts.millis}`;
  const today = partsOf(new Date(), zone).day === parts.day;
  return options.day === false || (options.day === undefined && today)
    ? clock
    : `${parts.day} ${clock}`;
}

/** The same moment on both clocks, for whoever compares logs. */
export function bothTimes(ms: number): string {
  if (Number.isNaN(new Date(ms).getTime())) return String(ms);
  const full = { day: true };
  return `${time(ms, "local", full)} local\n${time(ms, "utc", full)} UTC\n${ms} ms`;
}

/** For <input type="datetime-local">, in local time with seconds. */
export function inputTime(ms: number): string {
  const { day, clock } = partsOf(new Date(ms), "local");
  return `${day}T${clock}`;
}

function partsOf(at: Date, zone: Zone): { day: string; clock: string; millis: string } {
  const shifted =
    zone === "utc" ? at : new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  const iso = shifted.toISOString();
  const split = iso.indexOf("T");
  return { day: iso.slice(0, split), clock: iso.slice(split + 1, split + 9), millis: iso.slice(split + 9, split + 13) };
}

function scaled(value: number, base: number, units: readonly string[], gap: string): string {
  let size = Math.abs(value);
  let unit = 0;
  while (size >= base && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  const digits = unit === 0 ? (Number.isInteger(size) ? 0 : fraction(size)) : size < 100 ? 1 : 0;
  const name = units[unit] ?? "";
  return `${value < 0 ? "−" : ""}${trimmed(size, digits)}${name ? gap + name : ""}`;
}

/** Digits behind the point: one, or as many as show that a small value is not nothing. */
function fraction(value: number): number {
  return Math.min(6, Math.max(1, 1 - Math.floor(Math.log10(Math.abs(value)))));
}

function trimmed(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}

function two(first: number, firstUnit: string, second: number, secondUnit: string): string {
  return second ? `${first} ${firstUnit} ${second} ${secondUnit}` : `${first} ${firstUnit}`;
}

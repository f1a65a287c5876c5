// Pages have real addresses below /console; going from one to another loads nothing but data.
import type { ComponentChildren, ComponentType } from "preact";
import { Store, useStore } from "./store";

export const BASE = "/console";

type Place = { path: string; query: URLSearchParams };
export type Params = Record<string, string>;
export type Page = {
  /** Below /console, with parameters: `/topics/:topic`. */
  path: string;
  component: ComponentType<{ params: Params }>;
};

const place = new Store<Place>(here());

function here(): Place {
  const { pathname, search } = window.location;
  const inside = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname;
  return { path: inside.replace(/\/+$/, "") || "/", query: new URLSearchParams(search) };
}

export function startRouter(): void {
  window.addEventListener("popstate", () => place.set(here()));
}

/** Goes to an address below /console: `go("/topics/orders")`. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  const address = BASE + (to === "/" ? "" : to);
  const samePath = address.split("?")[0] === window.location.pathname;
  if (options.replace) window.history.replaceState(null, "", address);
  else window.history.pushState(null, "", address);
  place.set(here());
  if (!samePath) window.scrollTo(0, 0);
}

export function usePlace(): Place {
  return useStore(place);
}

/** One field of the address's query: filters live there, so that a view can be sent to somebody. */
export function useQueryField(name: string, fallback = ""): [string, (value: string) => void] {
  const { query } = usePlace();
  const set = (value: string) => setQueryFields({ [name]: value === fallback ? "" : value });
  return [query.get(name) ?? fallback, set];
}

/** Changes fields of the query and leaves the others; empty ones go. */
export function setQueryFields(fields: Record<string, string>): void {
  const { path, query } = here();
  for (const [name, value] of Object.entries(fields)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(text ? `${path}?${text}` : path, { replace: true });
}

/** The first page whose path fits, with what its parameters are. */
export function match<P extends Page>(
  pages: readonly P[],
  path: string,
): { page: P; params: Params } | null {
  for (const page of pages) {
    const params = fit(page.path, path);
    if (params) return { page, params };
  }
  return null;
}

function fit(pattern: string, path: string): Params | null {
  const wanted = pattern.split("/");
  const found = path.split("/");
  if (wanted.length !== found.length) return null;
  const params: Params = {};
  for (const [at, part] of wanted.entries()) {
    const text = found[at] ?? "";
    if (!part.startsWith(":")) {
      if (part !== text) return null;
      continue;
    }
    try {
      params[part.slice(1)] = decodeURIComponent(text);
    } catch {
      return null; // the address has a stray percent sign
    }
  }
  return params;
}

type LinkProps = {
  /** Below /console; build it with `path()` where it has names in it. */
  to: string;
  class?: string;
  title?: string;
  "aria-label"?: string;
  "aria-current"?: "page" | undefined;
  children?: ComponentChildren;
};

/** A link to another page of the console; new tabs and middle clicks work as everywhere. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
      return;
    }
    event.preventDefault();
    go(to);
  };
  return (
    <a {...rest} href={BASE + (to === "/" ? "" : to)} onClick={follow}>
      {children}
    </a>
  );
}

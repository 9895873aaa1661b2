/**
 * Every state that a user could want to share is in the address: `#/view/part/part?key=value`.
 *
 * The fragment is used because the page also has to work as a file, and because a fragment never reaches a server's log.
 */

import { signal } from "@preact/signals";

export interface Route {
  readonly view: string;
  readonly parts: readonly string[];
  readonly query: ReadonlyMap<string, string>;
}

export function parseRoute(fragment: string): Route {
  const [path = "", search = ""] = fragment.replace(/^#?\/?/, "").split(/\?(.*)/s, 2);
  const [view = "", ...parts] = path.split("/").filter(Boolean).map(decoded);
  return { view: view || "cluster", parts, query: new Map(new URLSearchParams(search)) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

type QueryValue = string | number | null | undefined;

export function formatRoute(view: string, parts: readonly string[] = [], query: Record<string, QueryValue> = {}): string {
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

export const route = signal<Route>(parseRoute(""));

export function startRouter(): void {
  const read = () => {
    route.value = parseRoute(location.hash);
  };
  addEventListener("hashchange", read);
  read();
}

export function navigate(target: string, replacing = false): void {
  if (replacing) history.replaceState(null, "", target);
  else location.hash = target;
  route.value = parseRoute(location.hash);
}

/** Change single parameters of the current address without a new entry in the browser's history. */
export function setQuery(changes: Record<string, QueryValue>): void {
  const { view, parts, query } = route.peek();
  const merged = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", formatRoute(view, parts, merged));
  route.value = parseRoute(location.hash);
}

/** Everything that the views share, as signals. Views read; only this file and the action dialog write. */

import { computed, signal } from "@preact/signals";
import { api, ApiError, embedded } from "./api/client";
import { applyMigrations, applyNodes, isRunning } from "./api/deltas";
import { EventStream, type StreamState } from "./api/stream";
import type {
  ClusterView,
  MigrationsDelta,
  MigrationView,
  NodesDelta,
  PlanEvent,
  PlanView,
  ResyncEvent,
  SessionView,
  StatusView,
} from "./api/types.gen";
import type { Language } from "./lib/format";
import type { Theme } from "./lib/load-scale";
import { formatRoute, navigate } from "./lib/router";

export const session = signal<SessionView | null>(null);
export const status = signal<StatusView | null>(null);
export const cluster = signal<ClusterView | null>(null);
export const plan = signal<PlanView | null>(null);
export const migrations = signal<readonly MigrationView[]>([]);
export const connection = signal<StreamState>("connecting");
/** Why the page has nothing to show; null while it loads and when it has data. */
export const failure = signal<ApiError | null>(null);
/** The clock for relative times: one tick per second for the whole page. */
export const now = signal(Date.now());

export const running = computed(() => migrations.value.filter(isRunning));

// --- preferences of the viewer

function stored<T extends string>(key: string, allowed: readonly T[], fallback: T): T {
  try {
    const value = localStorage.getItem(key) as T | null;
    return value && allowed.includes(value) ? value : fallback;
  } catch {
    return fallback; // A page that is a file may have no storage.
  }
}

function store(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const systemTheme = signal<Theme>(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => {
  systemTheme.value = event.matches ? "dark" : "light";
});

export const themeChoice = signal(stored("rescheduler.theme", ["system", "light", "dark"] as const, "system"));
export const theme = computed<Theme>(() => (themeChoice.value === "system" ? systemTheme.value : themeChoice.value));
export const language = signal<Language>(
  stored<Language>("rescheduler.language", ["en", "zh"], navigator.language.startsWith("zh") ? "zh" : "en"),
);

export function chooseTheme(choice: "system" | Theme): void {
  themeChoice.value = choice;
  store("rescheduler.theme", choice);
}

export function chooseLanguage(choice: Language): void {
  language.value = choice;
  store("rescheduler.language", choice);
}

// --- loading and following

let stream: EventStream | null = null;
let pendingDeltas: NodesDelta[] = [];
let flushRequested = false;

/** Load the session, then everything, then follow the changes. */
export async function start(): Promise<void> {
  setInterval(() => {
    now.value = Date.now();
  }, 1000);
  // A new link that is pasted into the same window only changes the fragment.
  addEventListener("hashchange", () => {
    const secret = takeSecret();
    if (secret) void enter(secret);
  });
  await enter(takeSecret());
}

async function enter(secret: string | null): Promise<void> {
  try {
    session.value = secret ? await api.login(secret) : await api.session();
    failure.value = null;
  } catch (error) {
    const cause = asApiError(error);
    if (secret && cause.status === 401) return enter(null);
    failure.value = cause;
    setTimeout(() => void enter(secret), 3000);
    return;
  }
  if (session.value.authenticated) await follow();
}

/** The secret of the link that `rescheduler web` prints: `#login=SECRET`. It doesn't stay in the address. */
function takeSecret(): string | null {
  const secret = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (!secret) return null;
  navigate(formatRoute("cluster"), true);
  return decodeURIComponent(secret);
}

export async function login(token: string): Promise<void> {
  session.value = await api.login(token);
  if (session.value.authenticated) await follow();
}

export async function logout(): Promise<void> {
  stream?.close();
  session.value = await api.logout();
  [cluster.value, plan.value, status.value, migrations.value] = [null, null, null, []];
}

async function follow(): Promise<void> {
  await reload();
  if (embedded) {
    now.value = Date.parse(cluster.value?.takenAt ?? "") || Date.now();
    return;
  }
  stream ??= new EventStream(
    api.eventsUrl,
    (state) => {
      connection.value = state;
      if (state === "lost") void renewSession();
    },
    {
      nodes: (data) => receiveNodes(data as NodesDelta),
      migrations: (data) => receiveMigrations(data as MigrationsDelta),
      status: (data) => {
        status.value = data as StatusView;
      },
      plan: (data) => void receivePlan(data as PlanEvent),
      resync: (data) => void receiveResync(data as ResyncEvent),
    },
  );
  stream.open();
}

export async function reload(): Promise<void> {
  try {
    // Users who may not list nodes still see the pods, moves and reasons of their namespaces.
    const seesNodes = session.value?.seesNodes !== false;
    const [newCluster, newStatus] = await Promise.all([seesNodes ? api.cluster() : null, api.status()]);
    [cluster.value, status.value, failure.value] = [newCluster, newStatus, null];
    void loadPlan();
    migrations.value = (await api.migrations({ limit: 200 })).migrations;
  } catch (error) {
    const apiError = asApiError(error);
    if (apiError.status === 401 && session.value) session.value = { ...session.value, authenticated: false };
    failure.value = apiError;
    if (apiError.status === 503 || apiError.status === 0) setTimeout(() => void reload(), 2000);
  }
}

/** Planning a large cluster can take longer than a request may: the plan is there at the next try. */
async function loadPlan(): Promise<void> {
  try {
    plan.value = await api.plan();
  } catch (error) {
    const { status: code } = asApiError(error);
    if (code === 0 || code === 429 || code >= 500) setTimeout(() => void loadPlan(), 2000);
  }
}

/** After a lost connection: has the session ended, or is only the server away? */
async function renewSession(): Promise<void> {
  try {
    const renewed = await api.session();
    if (renewed.authenticated || session.value?.authenticated) session.value = renewed;
    if (!renewed.authenticated) stream?.close();
  } catch {
    // The stream tries again by itself.
  }
}

/** Deltas that arrive within one frame are applied together, so that a burst costs one repaint. */
function receiveNodes(delta: NodesDelta): void {
  pendingDeltas.push(delta);
  if (flushRequested) return;
  flushRequested = true;
  setTimeout(() => {
    flushRequested = false;
    const deltas = pendingDeltas;
    pendingDeltas = [];
    if (!cluster.value) return;
    let next: ClusterView | null = cluster.value;
    for (const each of deltas) next = next && applyNodes(next, each);
    if (next) cluster.value = next;
    else void reload();
  }, 100);
}

function receiveMigrations(delta: MigrationsDelta): void {
  migrations.value = applyMigrations(migrations.value, delta);
}

async function receivePlan(event: PlanEvent): Promise<void> {
  if (event.revision !== plan.value?.revision) await loadPlan();
}

async function receiveResync(event: ResyncEvent): Promise<void> {
  if (event.why === "start" && event.epoch === cluster.value?.epoch && event.revision === cluster.value.revision) return;
  await reload();
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(-1, "Internal", String(error));
}

/** Whether the viewer may be offered an action at all. The server checks each one again. */
export function mayAct(action: string): boolean {
  const view = session.value;
  return Boolean(view && !view.readOnly && view.actions[action]);
}

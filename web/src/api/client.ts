/** Requests to the server, or to the data that is embedded in the document when the page is a file. */

import type {
  ActionPreview,
  ActionResult,
  ApplyAction,
  BalanceView,
  CancelAction,
  ClusterView,
  DrainAction,
  ErrorView,
  LabelColumn,
  MigrationDetail,
  MigrationList,
  MoveAction,
  NodeDetail,
  PauseAction,
  PlanForm,
  PlanView,
  PodList,
  PodMatrix,
  ResumeAction,
  SessionView,
  StatusView,
  UndrainAction,
  WhatIfRequest,
  WhatIfView,
} from "./types.gen";

const PREFIX = "api/v1";

export type Action = MoveAction | ApplyAction | CancelAction | PauseAction | ResumeAction | DrainAction | UndrainAction;

/** Why a request failed. `status` is 0 if no server answered. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

type Embedded = Readonly<Record<string, unknown>>;

/** The answers that `plan --html` wrote into the document, by path without query. */
export function readEmbedded(page: Document): Embedded | null {
  const element = page.getElementById("rescheduler-data");
  return element?.textContent ? (JSON.parse(element.textContent) as Embedded) : null;
}

export const embedded: Embedded | null = typeof document === "undefined" ? null : readEmbedded(document);

let csrfToken = "";

async function request<T>(path: string, body?: unknown): Promise<T> {
  if (embedded) {
    const answer = embedded[`/${PREFIX}${decodeURIComponent(path.split("?", 1)[0]!)}`];
    if (body === undefined && answer !== undefined) return answer as T;
    throw new ApiError(404, "NotInFile", "");
  }
  let response: Response;
  try {
    response = await fetch(`${PREFIX}${path}`, {
      credentials: "same-origin",
      ...(body === undefined
        ? {}
        : {
            method: "POST",
            headers: { "Content-Type": "application/json", "X-Rescheduler-CSRF": csrfToken },
            body: JSON.stringify(body),
          }),
    });
  } catch {
    throw new ApiError(0, "Unreachable", "");
  }
  if (response.ok) return (await response.json()) as T;
  const error = (await response.json().catch(() => null)) as ErrorView | null;
  throw new ApiError(response.status, error?.reason ?? String(response.status), error?.message ?? response.statusText);
}

function search(parameters: Record<string, string | number | null | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}

async function remember(session: Promise<SessionView>): Promise<SessionView> {
  const view = await session;
  csrfToken = view.csrfToken;
  return view;
}

export interface MigrationFilter {
  readonly state?: string;
  readonly phase?: string;
  readonly namespace?: string;
  readonly node?: string;
  readonly strategy?: string;
  readonly handover?: string;
  readonly q?: string;
  readonly before?: string;
  readonly limit?: number;
}

const segment = encodeURIComponent;
const podPath = (key: string) => key.split("/").map(segment).join("/");

export const api = {
  session: () => remember(request<SessionView>("/session")),
  login: (token: string) => remember(request<SessionView>("/login", { token })),
  logout: () => remember(request<SessionView>("/logout", {})),
  status: () => request<StatusView>("/status"),
  cluster: () => request<ClusterView>("/cluster"),
  label: (key: string) => request<LabelColumn>(`/cluster/label${search({ key })}`),
  balance: () => request<BalanceView>("/balance"),
  node: (name: string) => request<NodeDetail>(`/nodes/${segment(name)}`),
  pods: (q: string, limit = 20) => request<PodList>(`/pods${search({ q, limit })}`),
  podsOn: (node: string) => request<PodList>(`/pods${search({ node, limit: 500 })}`),
  explain: (pod: string) => request<PodMatrix>(`/pods/${podPath(pod)}/explain`),
  plan: () => request<PlanView>("/plan"),
  planDocument: () => request<PlanForm>("/plan/document"),
  whatIf: (changes: WhatIfRequest) => request<WhatIfView>("/what-if", changes),
  whatIfByCode: (code: string) => request<WhatIfView>(`/what-if/${segment(code)}`),
  whatIfDocument: (code: string) => request<PlanForm>(`/what-if/${segment(code)}/document`),
  migrations: (filter: MigrationFilter) => request<MigrationList>(`/migrations${search({ ...filter })}`),
  migration: (key: string) => request<MigrationDetail>(`/migrations/${podPath(key)}`),
  preview: (action: Action) => request<ActionPreview>("/actions/preview", action),
  confirm: (confirmation: string) => request<ActionResult>("/actions/confirm", { confirmation }),
  eventsUrl: `${PREFIX}/events`,
};

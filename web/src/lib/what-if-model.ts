/** The What if form: from an address to a form, and from a form to a request. Pure. */

import type { WhatIfRequest } from "../api/types.gen";

export interface Pin {
  readonly pod: string;
  readonly node: string;
}

export interface More {
  readonly like: string;
  readonly count: number;
}

export interface WhatIfForm {
  readonly cpu: number | null;
  readonly memory: number | null;
  readonly imbalance: number | null;
  readonly maxMoves: number | null;
  readonly strategies: readonly string[] | null;
  readonly drain: readonly string[];
  readonly pin: readonly Pin[];
  readonly more: readonly More[];
}

export const UNCHANGED: WhatIfForm = {
  cpu: null,
  memory: null,
  imbalance: null,
  maxMoves: null,
  strategies: null,
  drain: [],
  pin: [],
  more: [],
};

/** The changes that other views link to: `drain=NODE`, `pin=NAMESPACE/POD>NODE`, `like=NODE&count=2`. */
export function formFromQuery(query: ReadonlyMap<string, string>): WhatIfForm {
  const drain = query.get("drain");
  const [pod, node] = (query.get("pin") ?? "").split(">", 2);
  const like = query.get("like");
  return {
    ...UNCHANGED,
    drain: drain ? [drain] : [],
    pin: pod && node ? [{ pod, node }] : [],
    more: like ? [{ like, count: Math.min(100, Math.max(1, Number(query.get("count")) || 1)) }] : [],
  };
}

export function formFromRequest(request: WhatIfRequest): WhatIfForm {
  return {
    cpu: request.cpuThreshold ?? null,
    memory: request.memoryThreshold ?? null,
    imbalance: request.imbalanceThreshold ?? null,
    maxMoves: request.maxMoves ?? null,
    strategies: request.strategies ?? null,
    drain: request.drain ?? [],
    pin: request.pin ?? [],
    more: (request.addNodes ?? []).map(({ like, count }) => ({ like, count: count ?? 1 })),
  };
}

export function requestFromForm(form: WhatIfForm): WhatIfRequest {
  return {
    ...(form.cpu === null ? {} : { cpuThreshold: form.cpu }),
    ...(form.memory === null ? {} : { memoryThreshold: form.memory }),
    ...(form.imbalance === null ? {} : { imbalanceThreshold: form.imbalance }),
    ...(form.maxMoves === null ? {} : { maxMoves: form.maxMoves }),
    ...(form.strategies === null ? {} : { strategies: form.strategies }),
    ...(form.drain.length ? { drain: form.drain } : {}),
    ...(form.pin.length ? { pin: form.pin } : {}),
    ...(form.more.length ? { addNodes: form.more } : {}),
  };
}

export function isUnchanged(form: WhatIfForm): boolean {
  return Object.keys(requestFromForm(form)).length === 0;
}

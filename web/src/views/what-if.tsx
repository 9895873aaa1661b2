/** Change settings and the cluster in thought; the server plans again and changes nothing. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { api, ApiError, embedded } from "../api/client";
import type { WhatIfView } from "../api/types.gen";
import { plural, t } from "../i18n";
import { formatRoute, route } from "../lib/router";
import { saveJson } from "../lib/save-file";
import { formFromQuery, formFromRequest, isUnchanged, requestFromForm, UNCHANGED, type WhatIfForm } from "../lib/what-if-model";
import { Empty, Failure, Loading, Name, Section } from "../parts/basics";
import { NodeInput, PodInput } from "../parts/pickers";
import { mayAct, status } from "../store";
import { openAction } from "./action-dialog";
import { PlanBody } from "./planned-moves";
import { RefusalList } from "./refusals";

const STRATEGIES = ["LoadBalancing", "ResourceOptimization", "NodeMaintenance", "TopologySpread", "CostOptimization", "MakeRoom", "PlacementDrift", "PodLifeTime"];
const DELAY_MS = 350;

interface Outcome {
  readonly result: WhatIfView | null;
  readonly error: unknown;
  readonly loading: boolean;
}

export function WhatIfPage() {
  const code = route.value.parts[0];
  const [form, setForm] = useState<WhatIfForm>(() => formFromQuery(route.value.query));
  const [outcome, setOutcome] = useState<Outcome>({ result: null, error: null, loading: Boolean(code) });
  // On a phone, the form would hide the plan of a what-if that someone follows a link to.
  const [unfolded, setUnfolded] = useState(() => !code && isUnchanged(form));
  const request = useMemo(() => JSON.stringify(requestFromForm(form)), [form]);

  useEffect(() => {
    if (!code || code === outcome.result?.code) return;
    api.whatIfByCode(code).then(
      (result) => {
        setOutcome({ result, error: null, loading: false });
        setForm(formFromRequest(result.request));
      },
      (error: unknown) => setOutcome({ result: null, error, loading: false }),
    );
  }, [code]);

  useEffect(() => {
    if (isUnchanged(form) || (outcome.result && request === JSON.stringify(requestFromForm(formFromRequest(outcome.result.request))))) return;
    let current = true;
    const timer = setTimeout(() => {
      setOutcome((old) => ({ ...old, loading: true }));
      api.whatIf(requestFromForm(form)).then(
        (result) => {
          if (!current) return;
          setOutcome({ result, error: null, loading: false });
          history.replaceState(null, "", formatRoute("what-if", [result.code]));
        },
        (error: unknown) => current && setOutcome({ result: null, error, loading: false }),
      );
    }, DELAY_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [request]);

  const reset = () => {
    setForm(UNCHANGED);
    setOutcome({ result: null, error: null, loading: false });
    history.replaceState(null, "", formatRoute("what-if"));
  };

  return (
    <div class="page">
      <div class="page-head">
        <div>
          <h1>{t("nav.whatIf")}</h1>
          <p>{t("whatIf.intro")}</p>
        </div>
        {outcome.result ? <ResultActions result={outcome.result} /> : null}
      </div>
      {embedded ? (
        <Failure error={new ApiError(404, "NotInFile", "")} />
      ) : (
        <div class="what-if">
          <div class={`what-if-side ${unfolded ? "" : "folded"}`}>
            <div class="what-if-fold">
              <button type="button" aria-expanded={unfolded} onClick={() => setUnfolded(!unfolded)}>
                {t("whatIf.change")}
              </button>
              {unfolded ? null : <Assumed form={form} />}
            </div>
            <Form form={form} change={(changes) => setForm({ ...form, ...changes })} reset={reset} />
          </div>
          <div class="what-if-result" aria-busy={outcome.loading}>
            <Result outcome={outcome} />
          </div>
        </div>
      )}
    </div>
  );
}

function ResultActions({ result }: { readonly result: WhatIfView }) {
  const [copied, setCopied] = useState(false);
  const share = async () => {
    await navigator.clipboard.writeText(new URL(formatRoute("what-if", [result.code]), location.href).href).then(
      () => setCopied(true),
      () => setCopied(false),
    );
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="actions">
      <button type="button" onClick={() => void share()}>
        {copied ? t("whatIf.copied") : t("whatIf.share")}
      </button>
      <span class="visually-hidden" role="status">
        {copied ? t("whatIf.copied") : ""}
      </span>
      <button
        type="button"
        disabled={!result.canApply}
        title={result.canApply ? undefined : t("whatIf.cantApply")}
        onClick={() => void api.whatIfDocument(result.code).then((document) => saveJson("plan.json", document))}
      >
        {t("plan.export")}
      </button>
      {mayAct("apply") && result.plan.moves.length ? (
        <button type="button" class="primary" disabled={!result.canApply} onClick={() => openAction({ kind: "apply", code: result.code })}>
          {t("act.apply")}
        </button>
      ) : null}
    </div>
  );
}

function Result({ outcome }: { readonly outcome: Outcome }) {
  const { result, error, loading } = outcome;
  if (error) return <Failure error={error} />;
  if (!result) return loading ? <Loading what={t("whatIf.planning")} /> : <Empty title={t("whatIf.empty")}>{t("whatIf.emptyHelp")}</Empty>;
  return (
    <div class={`what-if-plan ${loading ? "stale" : ""}`}>
      <p class="visually-hidden" role="status">
        {plural("moves", result.plan.moves.length)}
      </p>
      {result.notes.length || result.addedNodes.length ? (
        <p class="muted">
          {[...result.notes, result.addedNodes.length ? t("whatIf.added", { names: result.addedNodes.join(", ") }) : ""].filter(Boolean).join(" ")}
        </p>
      ) : null}
      {result.refusedPins.length ? (
        <Section title={t("whatIf.refusedPins")}>
          <RefusalList refusals={result.refusedPins} />
        </Section>
      ) : null}
      <PlanBody plan={result.plan} limit={result.request.imbalanceThreshold ?? status.value?.thresholds["imbalance"] ?? 20} />
    </div>
  );
}

/** What is different from the cluster, while the form is folded. */
function Assumed({ form }: { readonly form: WhatIfForm }) {
  const words = [
    ...form.drain.map((node) => t("whatIf.drains", { node })),
    ...form.pin.map(({ pod, node }) => `${pod} → ${node}`),
    ...form.more.map(({ like, count }) => t("whatIf.moreLike", { n: count, node: like })),
    form.imbalance === null ? "" : `${t("whatIf.imbalance")} ${form.imbalance}`,
    form.cpu === null ? "" : `${t("whatIf.cpu")} ${form.cpu}%`,
    form.memory === null ? "" : `${t("whatIf.memory")} ${form.memory}%`,
    form.maxMoves === null ? "" : `${t("whatIf.maxMoves")} ${form.maxMoves}`,
    form.strategies === null ? "" : form.strategies.join(", "),
  ];
  return <Name>{words.filter(Boolean).join("; ")}</Name>;
}

interface FormProps {
  readonly form: WhatIfForm;
  readonly change: (changes: Partial<WhatIfForm>) => void;
  readonly reset: () => void;
}

function Form({ form, change, reset }: FormProps) {
  const thresholds = status.value?.thresholds ?? {};
  return (
    <form class="what-if-form" onSubmit={(event) => event.preventDefault()}>
      <fieldset>
        <legend>{t("whatIf.settings")}</legend>
        <NumberField label={t("whatIf.imbalance")} unit={t("plan.points")} value={form.imbalance} usual={thresholds["imbalance"] ?? 20} most={100} onChange={(imbalance) => change({ imbalance })} />
        <NumberField label={t("whatIf.cpu")} unit="%" value={form.cpu} usual={thresholds["cpu"] ?? 80} most={100} onChange={(cpu) => change({ cpu })} />
        <NumberField label={t("whatIf.memory")} unit="%" value={form.memory} usual={thresholds["memory"] ?? 80} most={100} onChange={(memory) => change({ memory })} />
        <NumberField label={t("whatIf.maxMoves")} unit="" value={form.maxMoves} usual={status.value?.maxMoves ?? 10} most={2000} least={1} onChange={(maxMoves) => change({ maxMoves })} />
      </fieldset>
      <Strategies form={form} change={change} />
      <fieldset>
        <legend>{t("whatIf.drain")}</legend>
        <Chips items={form.drain} label={(node) => node} remove={(node) => change({ drain: form.drain.filter((each) => each !== node) })} />
        <NodeInput label={t("whatIf.drainNode")} onPick={(node) => change({ drain: [...new Set([...form.drain, node])] })} />
      </fieldset>
      <PinFields form={form} change={change} />
      <fieldset>
        <legend>{t("whatIf.more")}</legend>
        <Chips
          items={form.more}
          label={({ like, count }) => t("whatIf.moreLike", { n: count, node: like })}
          remove={(gone) => change({ more: form.more.filter((each) => each !== gone) })}
        />
        <NodeInput label={t("whatIf.twoLike")} onPick={(like) => change({ more: [...form.more.filter((each) => each.like !== like), { like, count: 2 }] })} />
      </fieldset>
      <button type="button" onClick={reset} disabled={isUnchanged(form)}>
        {t("whatIf.reset")}
      </button>
    </form>
  );
}

interface NumberFieldProps {
  readonly label: string;
  readonly unit: string;
  readonly value: number | null;
  readonly usual: number;
  readonly least?: number;
  readonly most: number;
  readonly onChange: (value: number | null) => void;
}

function NumberField({ label, unit, value, usual, least = 0, most, onChange }: NumberFieldProps) {
  const read = (text: string) => {
    const number = Number(text);
    onChange(text === "" || number === usual || !Number.isFinite(number) ? null : Math.min(most, Math.max(least, number)));
  };
  return (
    <label class={`number-field ${value === null ? "" : "changed"}`}>
      <span>{label}</span>
      <input type="number" min={least} max={most} value={value ?? usual} onInput={(event) => read(event.currentTarget.value)} />
      <span class="muted unit">{unit}</span>
    </label>
  );
}

function Strategies({ form, change }: Omit<FormProps, "reset">) {
  const usual = status.value?.strategies ?? [];
  const all = [...new Set([...usual, ...STRATEGIES])];
  // The server adds it to drain nodes.
  const needed = (name: string) => name === "NodeMaintenance" && form.drain.length > 0;
  const chosen = form.strategies ?? usual;
  const toggle = (name: string) => {
    const next = all.filter((each) => (each === name) !== chosen.includes(each));
    change({ strategies: next.join() === all.filter((each) => usual.includes(each)).join() ? null : next });
  };
  return (
    <fieldset>
      <legend>{t("whatIf.strategies")}</legend>
      {all.map((name) => (
        <label key={name} class="check">
          <input type="checkbox" checked={needed(name) || chosen.includes(name)} disabled={needed(name)} onChange={() => toggle(name)} />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

/** The way without a mouse to drag a pod to a node. */
function PinFields({ form, change }: Omit<FormProps, "reset">) {
  const [pod, setPod] = useState<string | null>(null);
  return (
    <fieldset>
      <legend>{t("whatIf.pin")}</legend>
      <Chips
        items={form.pin}
        label={(pin) => `${pin.pod} → ${pin.node}`}
        remove={(gone) => change({ pin: form.pin.filter((each) => each !== gone) })}
      />
      {pod ? (
        <>
          <p>
            <Name>{pod}</Name>{" "}
            <button type="button" class="link" onClick={() => setPod(null)}>
              {t("whatIf.otherPod")}
            </button>
          </p>
          <NodeInput
            label={t("whatIf.toNode")}
            onPick={(node) => {
              change({ pin: [...form.pin.filter((each) => each.pod !== pod), { pod, node }] });
              setPod(null);
            }}
          />
        </>
      ) : (
        <PodInput label={t("whatIf.pinPod")} onPick={setPod} />
      )}
    </fieldset>
  );
}

function Chips<T>({ items, label, remove }: { readonly items: readonly T[]; readonly label: (item: T) => string; readonly remove: (item: T) => void }) {
  return items.length ? (
    <ul class="chips">
      {items.map((item) => (
        <li key={label(item)}>
          <Name>{label(item)}</Name>
          <button type="button" class="plain" onClick={() => remove(item)} aria-label={t("remove", { what: label(item) })}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  ) : null;
}

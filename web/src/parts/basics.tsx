/** Small parts that every view uses: names, times, loads, states. */

import type { ComponentChildren } from "preact";
import { exactTime, percent, printable, relativeTime } from "../lib/format";
import { loadColor } from "../lib/load-scale";
import { formatRoute } from "../lib/router";
import { asApiError, language, now, theme } from "../store";
import { t, type Text } from "../i18n";

/** A relative time with the exact one on hover. */
export function Time({ at }: { readonly at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  const milliseconds = Date.parse(at);
  return (
    <time dateTime={at} title={exactTime(milliseconds, language.value)} class="nowrap">
      {relativeTime(milliseconds, now.value, language.value)}
    </time>
  );
}

/** Text from the cluster. */
export function Name({ children }: { readonly children: string }) {
  return (
    <bdi class="name" title={children.length > 40 ? printable(children) : undefined}>
      {printable(children)}
    </bdi>
  );
}

/** Words of rescheduler, in which backticks mark settings and commands. */
export function Words({ children }: { readonly children: string }) {
  return <>{printable(children).split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

export function NodeLink({ name }: { readonly name: string }) {
  return (
    <a href={formatRoute("cluster", [name])} class="node-link" title={name.length > 26 ? printable(name) : undefined}>
      <bdi>{printable(name)}</bdi>
    </a>
  );
}

/** `namespace/name`, with the namespace in gray. */
export function PodName({ pod }: { readonly pod: string }) {
  const [namespace = "", name = ""] = pod.split("/", 2);
  return (
    <>
      <bdi class="name muted">{printable(namespace)}/</bdi>
      <Name>{name}</Name>
    </>
  );
}

export function PodLink({ pod }: { readonly pod: string }) {
  return (
    <a href={formatRoute("why", pod.split("/", 2))}>
      <PodName pod={pod} />
    </a>
  );
}

/** A horizontal bar in the load's color, with the figure beside it and the ghost where it will be. */
export function LoadBar({ value, after }: { readonly value: number | null; readonly after?: number | null }) {
  const shown = Math.min(100, Math.max(0, value ?? 0));
  const changes = after !== null && after !== undefined && value !== null && Math.abs(after - value) >= 0.5;
  return (
    <span class="load">
      <span class="load-track" aria-hidden="true">
        <span class="load-fill" style={{ width: `${shown}%`, background: loadColor(shown, theme.value) }} />
        {changes ? <span class="load-ghost" style={{ left: `${Math.min(100, Math.max(0, after))}%` }} /> : null}
      </span>
      <span class="load-figure">
        {percent(value, language.value)}
        {changes ? <span class="accent"> → {percent(after, language.value)}</span> : null}
      </span>
    </span>
  );
}

/** One fact with a label: the large figures at the top of views. */
export function Figure({ label, value, note }: { readonly label: string; readonly value: ComponentChildren; readonly note?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        <span class="figure-value">{value}</span>
        {note ? <span class="muted small">{note}</span> : null}
      </dd>
    </div>
  );
}

export function Loading({ what }: { readonly what: string }) {
  return (
    <div class="state" role="status">
      <p class="muted">{what}</p>
      <div class="skeleton" aria-hidden="true">
        <span />
        <span />
        <span />
      </div>
    </div>
  );
}

/** Nothing to show, and why. `heading`: it is all that the page shows. */
export function Empty({ title, children, heading }: { readonly title: string; readonly children?: ComponentChildren; readonly heading?: boolean }) {
  const Title = heading ? "h1" : "p";
  return (
    <div class="state">
      <Title class="state-title">{title}</Title>
      {children ? <div class="muted">{children}</div> : null}
    </div>
  );
}

const ADVICE: Readonly<Record<string, Text>> = {
  NotInFile: "error.notInFile",
  Unreachable: "error.unreachable",
  Internal: "error.internal",
};

/** What failed, why, and what to do. */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  const cause = asApiError(error);
  const advice = ADVICE[cause.reason];
  return (
    <div class="state" role="alert">
      <p class="state-title">{t(cause.status === 403 ? "error.forbidden" : cause.status === 404 ? "error.notFound" : "error.title")}</p>
      <p class="muted">{advice ? t(advice) : printable(cause.message)}</p>
      {retry && cause.reason !== "NotInFile" ? (
        <p>
          <button type="button" onClick={retry}>
            {t("retry")}
          </button>
        </p>
      ) : null}
    </div>
  );
}

/** A labelled group of choices of which exactly one holds. */
export function Segmented<T extends string>(props: {
  readonly label: string;
  readonly value: T;
  readonly options: readonly { readonly value: T; readonly label: string }[];
  readonly onChange: (value: T) => void;
}) {
  return (
    <fieldset class="segmented">
      <legend class="visually-hidden">{props.label}</legend>
      {props.options.map((option) => (
        <button
          type="button"
          key={option.value}
          aria-pressed={option.value === props.value}
          onClick={() => props.onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </fieldset>
  );
}

export function Section(props: {
  readonly title: string;
  readonly note?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  return (
    <section class="section">
      <div class="section-head">
        <h2>{props.title}</h2>
        {props.note ? <span class="muted">{props.note}</span> : null}
        <span class="spring" />
        {props.actions}
      </div>
      {props.children}
    </section>
  );
}

/** A panel beside a view: takes the focus when it opens, and closes with Escape. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { formatRoute, navigate, route } from "../lib/router";
import type { Requested } from "../lib/use-request";
import { Failure, Loading, Name } from "./basics";

interface Props<T> {
  readonly name: string;
  /** For screen readers. */
  readonly label: string;
  /** The view behind the panel. */
  readonly view: string;
  readonly request: Requested<T>;
  readonly loading: string;
  readonly children: (data: T) => ComponentChildren;
}

export function SidePanel<T>({ name, label, view, request, loading, children }: Props<T>) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [name]);
  const close = () => navigate(formatRoute(view, [], Object.fromEntries(route.value.query)));
  return (
    <aside class="panel" aria-label={label} onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="panel-head">
        <h2 ref={heading} tabIndex={-1}>
          <Name>{name}</Name>
        </h2>
        <button type="button" class="plain" onClick={close} aria-label={t("close")}>
          ✕
        </button>
      </div>
      {request.data ? (
        <div class="panel-body">{children(request.data)}</div>
      ) : request.error ? (
        <Failure error={request.error} retry={request.again} />
      ) : (
        <Loading what={loading} />
      )}
    </aside>
  );
}

/** Every action is confirmed in a dialog that shows exactly which objects will be created or changed. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Action } from "../api/client";
import type { ActionPreview, ActionResult, ObjectChange } from "../api/types.gen";
import { plural, t } from "../i18n";
import { printable } from "../lib/format";
import { formatRoute } from "../lib/router";
import { useRequest } from "../lib/use-request";
import { Failure, Loading, Name } from "../parts/basics";
import { RefusalList } from "./refusals";

const requested = signal<Action | null>(null);

export function openAction(action: Action): void {
  requested.value = action;
}

export function ActionDialog() {
  const action = requested.value;
  return action ? <Confirmation key={JSON.stringify(action)} action={action} /> : null;
}

function Confirmation({ action }: { readonly action: Action }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const preview = useRequest(JSON.stringify(action), () => api.preview(action));
  const [outcome, setOutcome] = useState<{ result?: ActionResult; error?: unknown; busy: boolean }>({ busy: false });
  useEffect(() => dialog.current?.showModal(), []);
  const close = () => {
    requested.value = null;
  };
  const confirm = async (confirmation: string) => {
    setOutcome({ busy: true });
    try {
      setOutcome({ result: await api.confirm(confirmation), busy: false });
    } catch (error) {
      setOutcome({ error, busy: false });
    }
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="action-title" onClose={close}>
      <h2 id="action-title">{t(`act.${action.kind}`)}</h2>
      {outcome.result ? (
        <Done result={outcome.result} />
      ) : outcome.error ? (
        <Failure error={outcome.error} />
      ) : preview.data ? (
        <Preview preview={preview.data} />
      ) : preview.error ? (
        <Failure error={preview.error} retry={preview.again} />
      ) : (
        <Loading what={t("act.loading")} />
      )}
      <div class="dialog-foot">
        <button type="button" onClick={() => dialog.current?.close()}>
          {outcome.result || outcome.error ? t("close") : t("act.dont")}
        </button>
        {preview.data?.confirmation && !outcome.result && !outcome.error ? (
          <button type="button" class="primary" disabled={outcome.busy} onClick={() => void confirm(preview.data!.confirmation)}>
            {t(`act.${action.kind}`)}
          </button>
        ) : null}
      </div>
    </dialog>
  );
}

function Preview({ preview }: { readonly preview: ActionPreview }) {
  return (
    <div class="dialog-body">
      <p>{printable(preview.summary)}</p>
      {preview.refused.length ? <RefusalList refusals={preview.refused} /> : null}
      {preview.changes.length ? (
        <>
          <h3>{plural("act.objects", preview.changes.length)}</h3>
          <ul class="plain-list changes">
            {preview.changes.map((change, index) => (
              <Change key={index} change={change} open={preview.changes.length === 1} />
            ))}
          </ul>
        </>
      ) : null}
      {preview.notes.map((note) => (
        <p key={note} class="muted">
          {printable(note)}
        </p>
      ))}
    </div>
  );
}

function Change({ change, open }: { readonly change: ObjectChange; readonly open: boolean }) {
  return (
    <li>
      <details open={open}>
        <summary>
          <strong>{t(`verb.${change.verb}`)}</strong> {change.kind} <Name>{[change.namespace, change.name].filter(Boolean).join("/")}</Name>
        </summary>
        <pre tabIndex={0}>{printableLines(JSON.stringify(change.manifest, null, 2))}</pre>
      </details>
    </li>
  );
}

function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

function Done({ result }: { readonly result: ActionResult }) {
  return (
    <div class="dialog-body" role="status">
      <p>{printable(result.message)}</p>
      <ul class="plain-list">
        {result.migrations.slice(0, 20).map((key) => (
          <li key={key}>
            <a href={formatRoute("moves", key.split("/"))} onClick={() => (requested.value = null)}>
              <Name>{key}</Name>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

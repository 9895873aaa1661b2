/** What is refused, by reason, with the remedy. */

import type { RefusalGroup, RefusalView } from "../api/types.gen";
import { plural, t, translatedCode } from "../i18n";
import { count, printable } from "../lib/format";
import { language } from "../store";
import { Name, NodeLink, PodLink, Words } from "../parts/basics";

interface Explained {
  readonly reason: string;
  readonly meaning: string;
  readonly remedy: string;
}

/** Meaning and remedy of a reason, in the viewer's language. */
export function reasonWords(of: Explained): readonly [meaning: string, remedy: string] {
  const [meaning = of.meaning, remedy = of.remedy] = translatedCode("reasons", of.reason);
  return [meaning, remedy];
}

/** The meaning, as a sentence after the reason. */
export function Meaning({ of }: { readonly of: Explained }) {
  return <Words>{reasonWords(of)[0]}</Words>;
}

function Remedy({ of }: { readonly of: Explained }) {
  const [, remedy] = reasonWords(of);
  return remedy ? (
    <p>
      <span class="muted">
        {t("refusal.remedy")}
        {t("colon")}
      </span>
      <Words>{remedy}</Words>
    </p>
  ) : null;
}

export function RefusalGroups({ groups }: { readonly groups: readonly RefusalGroup[] }) {
  const most = Math.max(1, ...groups.map((group) => group.count));
  return (
    <ul class="refusals">
      {groups.map((group) => (
        <li key={group.reason}>
          <details>
            <summary>
              <span class="refusal-count">{count(group.count, language.value)}</span>
              <span class="refusal-bar" aria-hidden="true">
                <span style={{ width: `${(100 * group.count) / most}%` }} />
              </span>
              <strong>{group.reason}</strong>
              <span class="muted refusal-meaning">
                <Meaning of={group} />
              </span>
            </summary>
            <div class="refusal-body">
              <Remedy of={group} />
              <ul class="plain-list">
                {group.examples.map((example) => (
                  <li key={`${example.subject}/${example.by}`}>
                    <Subject name={example.subject} />
                    {example.detail || example.by ? (
                      <span class="muted"> {printable([example.by, example.detail].filter(Boolean).join(t("colon")))}</span>
                    ) : null}
                  </li>
                ))}
              </ul>
              {group.count > group.examples.length ? (
                <p class="muted">{plural("refusal.more", group.count - group.examples.length)}</p>
              ) : null}
            </div>
          </details>
        </li>
      ))}
    </ul>
  );
}

function Subject({ name }: { readonly name: string }) {
  if (/^[^/]+\/[^/]+$/.test(name)) return <PodLink pod={name} />;
  return name.includes("/") ? <Name>{name}</Name> : <NodeLink name={name} />;
}

export function RefusalList({ refusals }: { readonly refusals: readonly RefusalView[] }) {
  return (
    <ul class="plain-list refusal-list">
      {refusals.map((refusal) => (
        <li key={`${refusal.reason}/${refusal.by}/${refusal.detail}`}>
          <p>
            <strong>{refusal.reason}</strong> <Meaning of={refusal} />
            {refusal.by || refusal.detail ? (
              <span class="muted"> ({printable([refusal.by, refusal.detail].filter(Boolean).join(t("colon")))})</span>
            ) : null}
          </p>
          <Remedy of={refusal} />
        </li>
      ))}
    </ul>
  );
}

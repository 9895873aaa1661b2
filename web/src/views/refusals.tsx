/** What is refused, by reason, with the remedy. */

import type { RefusalGroup, RefusalView } from "../api/types.gen";
import { plural, t } from "../i18n";
import { count, printable } from "../lib/format";
import { language } from "../store";
import { Name, NodeLink, PodLink, Words } from "../parts/basics";

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
              <span class="muted refusal-meaning">{group.meaning}</span>
            </summary>
            <div class="refusal-body">
              {group.remedy ? (
                <p>
                  <span class="muted">{t("refusal.remedy")}: </span>
                  <Words>{group.remedy}</Words>
                </p>
              ) : null}
              <ul class="plain-list">
                {group.examples.map((example) => (
                  <li key={`${example.subject}/${example.by}`}>
                    <Subject name={example.subject} />
                    {example.detail || example.by ? (
                      <span class="muted"> {printable([example.by, example.detail].filter(Boolean).join(": "))}</span>
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
            <strong>{refusal.reason}</strong> {refusal.meaning}
            {refusal.by || refusal.detail ? (
              <span class="muted"> ({printable([refusal.by, refusal.detail].filter(Boolean).join(": "))})</span>
            ) : null}
          </p>
          {refusal.remedy ? (
            <p>
              <span class="muted">{t("refusal.remedy")}: </span>
              <Words>{refusal.remedy}</Words>
            </p>
          ) : null}
        </li>
      ))}
    </ul>
  );
}

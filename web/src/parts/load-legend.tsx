/** The key to the load scale, the ghost and the marks of the grid or the table: only to what is there. */

import type { CellStyle } from "../grid/painter";
import { t } from "../i18n";
import { loadColor } from "../lib/load-scale";
import { theme } from "../store";

const STEPS = [5, 15, 25, 35, 45, 55, 65, 75, 85, 95];

interface Props {
  /** What the colors say. */
  readonly title: string;
  /** Whether there is a plan to show, and the measure is what it changes. */
  readonly planned: boolean;
  /** Whether lines show moves that run. */
  readonly running: boolean;
  /** Whether a node is not ready. */
  readonly unready: boolean;
  /** Without cells there is a table, which needs no key for pods. */
  readonly cells: CellStyle | null;
}

export function LoadLegend({ title, planned, running, unready, cells }: Props) {
  return (
    <div class="load-legend" role="img" aria-label={t("legend.label", { title })}>
      <span class="legend-title">{title}</span>
      <span class="muted">0%</span>
      <span class="scale">
        {STEPS.map((step) => (
          <span key={step} style={{ background: loadColor(step, theme.value) }} />
        ))}
      </span>
      <span class="muted">100%</span>
      <span class="keys">
        {cells ? <span class="key wide-only">{t("legend.order")}</span> : null}
        {planned && cells === "color" ? (
          <>
            <span class="key more">{t("legend.more")}</span>
            <span class="key less">{t("legend.less")}</span>
          </>
        ) : null}
        {planned && cells !== "color" ? <span class="key ghost">{t("legend.ghost")}</span> : null}
        {planned && cells === "pods" ? (
          <>
            <span class="key leaves">{t("legend.leaves")}</span>
            <span class="key comes">{t("legend.comes")}</span>
          </>
        ) : null}
        {running && cells ? <span class="key running">{t("legend.running")}</span> : null}
        {unready && cells ? <span class="key unready">{t("legend.notReady")}</span> : null}
      </span>
    </div>
  );
}

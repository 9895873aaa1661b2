/** The key to the load scale, the ghost and the marks of the grid. */

import { t } from "../i18n";
import { loadColor } from "../lib/load-scale";
import { theme } from "../store";

const STEPS = [5, 15, 25, 35, 45, 55, 65, 75, 85, 95];

/** `map`: cells are tiny, and a triangle is the ghost. */
export function LoadLegend({ map }: { readonly map: boolean }) {
  return (
    <div class="load-legend" role="img" aria-label={t("legend.label")}>
      <span class="muted">0%</span>
      <span class="scale">
        {STEPS.map((step) => (
          <span key={step} style={{ background: loadColor(step, theme.value) }} />
        ))}
      </span>
      <span class="muted">100%</span>
      <span class="keys">
        {map ? (
          <>
            <span class="key more">{t("legend.more")}</span>
            <span class="key less">{t("legend.less")}</span>
          </>
        ) : (
          <>
            <span class="key ghost">{t("legend.ghost")}</span>
            <span class="key leaves">{t("legend.leaves")}</span>
            <span class="key comes">{t("legend.comes")}</span>
          </>
        )}
        <span class="key unready">{t("legend.notReady")}</span>
      </span>
    </div>
  );
}

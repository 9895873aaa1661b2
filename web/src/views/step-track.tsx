/** The steps of a move as a row of marks: done, current, to come. */

import type { MigrationView } from "../api/types.gen";
import { t, translatedCode } from "../i18n";

export function StepTrack({ migration }: { readonly migration: MigrationView }) {
  const [meaning] = translatedCode("steps", migration.step);
  const current = migration.steps.indexOf(migration.step);
  const ended = migration.phase === "Completed" || migration.phase === "Failed";
  return (
    <span class="steps">
      <span class="step-marks" aria-hidden="true">
        {migration.steps.map((step, index) => (
          <span key={step} title={step} class={index < current || migration.phase === "Completed" ? "done" : index === current ? "current" : "coming"} />
        ))}
      </span>
      <span>
        {migration.step}
        {meaning ? ` ${meaning}` : ""}
        {!ended && current >= 0 ? <span class="muted small"> {t("moves.stepOf", { n: current + 1, count: migration.steps.length })}</span> : null}
        {migration.attempts > 1 ? <span class="muted small"> {t("moves.attempt", { n: migration.attempts })}</span> : null}
      </span>
    </span>
  );
}

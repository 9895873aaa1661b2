/** The current plan. */

import { api, embedded } from "../api/client";
import type { PlanView } from "../api/types.gen";
import { t } from "../i18n";
import { printable } from "../lib/format";
import { saveJson } from "../lib/save-file";
import { Failure, Loading, Time } from "../parts/basics";
import { mayAct, plan, status } from "../store";
import { useRequest } from "../lib/use-request";
import { openAction } from "./action-dialog";
import { PlanBody } from "./planned-moves";

export function PlanPage() {
  const retried = useRequest(plan.value ? null : "plan", api.plan);
  const view = plan.value ?? retried.data;
  return (
    <div class="page">
      <div class="page-head">
        <div>
          <h1>{t("nav.plan")}</h1>
          {view ? (
            <p>
              {words(view)} <Time at={view.takenAt} />
              {t("stop")}
            </p>
          ) : null}
        </div>
        {view ? <Actions view={view} /> : null}
      </div>
      {view ? (
        <PlanBody plan={view} limit={status.value?.thresholds["imbalance"] ?? 20} />
      ) : retried.error ? (
        <Failure error={retried.error} retry={retried.again} />
      ) : (
        <Loading what={t("plan.loading")} />
      )}
    </div>
  );
}

/** Who executes the plan. Another replica that leads has a plan of its own, whose moves the page shows as they run. */
function words(view: PlanView): string {
  const { leader, leads, dryRun } = status.value ?? {};
  if (view.isExecuted) return t("plan.executed");
  return leader && !leads && !dryRun ? t("plan.otherLeads", { leader: printable(leader) }) : t("plan.notExecuted");
}

function Actions({ view }: { readonly view: PlanView }) {
  return (
    <div class="actions">
      {embedded ? null : (
        <button type="button" onClick={() => void api.planDocument().then((document) => saveJson("plan.json", document))}>
          {t("plan.export")}
        </button>
      )}
      {mayAct("apply") && view.moves.length ? (
        <button type="button" class="primary" onClick={() => openAction({ kind: "apply" })}>
          {t("act.apply")}
        </button>
      ) : null}
    </div>
  );
}

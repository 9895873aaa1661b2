/** The current plan. */

import { api, embedded } from "../api/client";
import type { PlanView } from "../api/types.gen";
import { t } from "../i18n";
import { saveJson } from "../lib/save-file";
import { Failure, Loading, Time } from "../parts/basics";
import { mayAct, plan } from "../store";
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
              {view.isExecuted ? t("plan.executed") : t("plan.notExecuted")} <Time at={view.takenAt} />
            </p>
          ) : null}
        </div>
        {view ? <Actions view={view} /> : null}
      </div>
      {view ? (
        <PlanBody plan={view} />
      ) : retried.error ? (
        <Failure error={retried.error} retry={retried.again} />
      ) : (
        <Loading what={t("plan.loading")} />
      )}
    </div>
  );
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

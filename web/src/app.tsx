/** The frame of the page: top bar, messages, and the view that the address names. */

import { useEffect, useRef } from "preact/hooks";
import type { ComponentType } from "preact";
import { embedded } from "./api/client";
import { t, type Text } from "./i18n";
import { printable } from "./lib/format";
import { formatRoute, route } from "./lib/router";
import { Empty, Failure, Loading, Time } from "./parts/basics";
import {
  chooseLanguage,
  chooseTheme,
  cluster,
  connection,
  failure,
  language,
  logout,
  plan,
  reload,
  running,
  session,
  status,
  themeChoice,
} from "./store";
import { ActionDialog } from "./views/action-dialog";
import { ClusterPage } from "./views/cluster";
import { LoginPage } from "./views/login";
import { MovesPage } from "./views/moves";
import { PlanPage } from "./views/plan";
import { WhatIfPage } from "./views/what-if";
import { WhyPage } from "./views/why";

interface View {
  readonly path: string;
  readonly title: Text;
  readonly page: ComponentType;
  readonly badge?: () => number;
  /** Whether it shows nothing to a viewer who may not list nodes. */
  readonly needsNodes?: boolean;
}

const VIEWS: readonly View[] = [
  { path: "cluster", title: "nav.cluster", page: ClusterPage, needsNodes: true },
  { path: "plan", title: "nav.plan", page: PlanPage, badge: () => plan.value?.moves.length ?? 0 },
  { path: "what-if", title: "nav.whatIf", page: WhatIfPage },
  { path: "why", title: "nav.why", page: WhyPage },
  { path: "moves", title: "nav.moves", page: MovesPage, badge: () => running.value.length },
];

export function App() {
  const view = VIEWS.find(({ path }) => path === route.value.view);
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    document.title = `${view ? t(view.title) : t("error.notFound")} · rescheduler`;
  }, [view, language.value]);
  const known = session.value;
  return (
    <>
      <a
        class="skip-link"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        {t("skip")}
      </a>
      <header>
        <TopBar />
        <Banner />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {known && !known.authenticated ? (
          <LoginPage />
        ) : !status.value ? (
          <Waiting />
        ) : view?.needsNodes && !cluster.value ? (
          <Empty title={t("error.forbidden")} heading>
            {t("error.noNodes")}
          </Empty>
        ) : view ? (
          <view.page key={view.path} />
        ) : (
          <Empty title={t("error.notFound")} heading>
            <a href={formatRoute("cluster")}>{t("nav.cluster")}</a>
          </Empty>
        )}
      </main>
      <ActionDialog />
    </>
  );
}

/** Before the first data: still loading, the server has no data yet, or something failed. */
function Waiting() {
  const error = failure.value;
  if (!error) return <Loading what={t("loading")} />;
  if (error.status === 503) return <Loading what={t("loading.caches")} />;
  return <Failure error={error} retry={() => void reload()} />;
}

function TopBar() {
  const known = session.value;
  return (
    <div class="topbar">
      <a class="brand" href={formatRoute("cluster")}>
        <Mark />
        rescheduler
      </a>
      {known?.authenticated ? (
        <nav aria-label={t("nav.label")}>
          {VIEWS.map(({ path, title, badge }) => {
            const number = badge?.() ?? 0;
            return (
              <a key={path} href={formatRoute(path)} aria-current={route.value.view === path ? "page" : undefined}>
                {t(title)}
                {number ? <span class="badge">{number}</span> : null}
              </a>
            );
          })}
        </nav>
      ) : null}
      <span class="spring" />
      <div class="context">
        {known?.authenticated ? <Connection /> : null}
        <Preferences />
      </div>
    </div>
  );
}

/** Two nodes, and a pod on its way from one to the other. */
function Mark() {
  return (
    <svg viewBox="0 0 18 18" aria-hidden="true">
      <rect x="1" y="3" width="6" height="12" class="mark-node" />
      <rect x="11" y="3" width="6" height="12" class="mark-node" />
      <rect x="7" y="7" width="4" height="4" class="mark-pod" />
    </svg>
  );
}

function Connection() {
  const known = session.value!;
  const state = embedded || known.mode === "file" ? "saved" : connection.value === "lost" ? "lost" : "live";
  return (
    <>
      <span class={`connection ${state}`} role="status">
        <span>{t(`connection.${state}`)}</span>
      </span>
      {known.clusterName ? <span class="name wide-only">{printable(known.clusterName)}</span> : null}
    </>
  );
}

function Preferences() {
  const next = { system: "light", light: "dark", dark: "system" } as const;
  return (
    <>
      <button
        type="button"
        class="plain"
        lang={language.value === "en" ? "zh-CN" : "en"}
        aria-label={language.value === "en" ? "切换到中文" : "Switch to English"}
        onClick={() => chooseLanguage(language.value === "en" ? "zh" : "en")}
      >
        {language.value === "en" ? "中文" : "EN"}
      </button>
      <button type="button" class="plain" onClick={() => chooseTheme(next[themeChoice.value])} aria-label={t("theme.label", { theme: t(`theme.${themeChoice.value}`) })}>
        <span aria-hidden="true">◐</span>
        {t(`theme.${themeChoice.value}`)}
      </button>
      {session.value?.authenticated && session.value.login === "token" && !embedded ? (
        <button type="button" class="plain" title={session.value.user} onClick={() => void logout()}>
          {t("logout")}
        </button>
      ) : null}
    </>
  );
}

/** What the viewer must know, whatever the view. */
function Banner() {
  const known = session.value;
  const read = cluster.value?.takenAt;
  if (!known?.authenticated || !status.value) return null;
  if (embedded || known.mode === "file") {
    return (
      <div class="banner quiet">
        <span>
          {t("banner.saved")} <Time at={read} />
          {t("stop")}
        </span>
      </div>
    );
  }
  if (connection.value === "lost") {
    return (
      <div class="banner" role="alert">
        <strong>{t("banner.lost")}</strong>
        <span>
          {t("banner.lostHelp")} <Time at={read} />
          {t("stop")}
        </span>
      </div>
    );
  }
  if ((cluster.value?.stalenessSeconds ?? 0) > 120) {
    return (
      <div class="banner" role="alert">
        <strong>{t("banner.stale")}</strong> <span>{t("banner.staleHelp")}</span>
      </div>
    );
  }
  return null;
}

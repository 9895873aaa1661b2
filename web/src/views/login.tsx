/** Without a session: a token, or the link that the command printed. */

import { useState } from "preact/hooks";
import { t } from "../i18n";
import { ApiError } from "../api/client";
import { asApiError, login, session } from "../store";

export function LoginPage() {
  const [token, setToken] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await login(token.trim());
    } catch (cause) {
      setError(asApiError(cause));
    } finally {
      setBusy(false);
      setToken("");
    }
  };
  if (session.value?.login === "link") {
    return (
      <div class="login">
        <h1>{t("login.title")}</h1>
        <p>{t("login.link")}</p>
      </div>
    );
  }
  return (
    <form class="login" onSubmit={(event) => void submit(event)}>
      <h1>{t("login.title")}</h1>
      <p class="muted">{t("login.help")}</p>
      <p>{t("login.create")}</p>
      <pre tabIndex={0}>kubectl create token ACCOUNT -n NAMESPACE</pre>
      <label class="login-field">
        <span>{t("login.token")}</span>
        <input
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={token}
          aria-invalid={Boolean(error)}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      {error ? (
        <p class="danger" role="alert">
          {error.status === 401 ? t("login.wrong") : error.status === 0 ? t("error.unreachable") : error.message}
        </p>
      ) : null}
      <button type="submit" class="primary" disabled={busy || !token.trim()}>
        {t("login.submit")}
      </button>
    </form>
  );
}

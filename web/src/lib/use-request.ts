/** Load something when its key changes; answers of outdated requests are dropped. */

import { useCallback, useEffect, useState } from "preact/hooks";

export interface Requested<T> {
  readonly data: T | null;
  readonly error: unknown;
  readonly loading: boolean;
  readonly again: () => void;
}

export function useRequest<T>(key: string | null, load: () => Promise<T>): Requested<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: unknown; loading: boolean }>({
    key: null,
    data: null,
    error: null,
    loading: key !== null,
  });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (key === null) return;
    let current = true;
    setState((old) => ({ key, data: stem(old.key) === stem(key) ? old.data : null, error: null, loading: true }));
    load().then(
      (data) => current && setState({ key, data, error: null, loading: false }),
      (error: unknown) => current && setState((old) => ({ ...old, error, loading: false })),
    );
    return () => {
      current = false;
    };
  }, [key, round]);
  const again = useCallback(() => setRound((value) => value + 1), []);
  return key === null ? { data: null, error: null, loading: false, again } : { ...state, again };
}

/** `name@revision`: while a newer revision of the same thing loads, the old one stays. */
function stem(key: string | null): string | undefined {
  return key?.split("@", 1)[0];
}

/** Text fields that find a node or a pod while the viewer types: a combobox with a list, by keyboard or pointer. */

import { useEffect, useId, useState } from "preact/hooks";
import { api } from "../api/client";
import { t } from "../i18n";
import { printable } from "../lib/format";
import { cluster } from "../store";

const MOST = 12;

interface PickerProps {
  readonly label: string;
  readonly onPick: (value: string) => void;
  readonly autoFocus?: boolean;
}

export function NodeInput(props: PickerProps) {
  return <Picker {...props} find={async (text) => cluster.value?.nodes.names.filter((name) => name.includes(text)).slice(0, MOST) ?? []} />;
}

export function PodInput(props: PickerProps) {
  return <Picker {...props} find={async (text) => (await api.pods(text, MOST)).pods.map(({ pod }) => pod).filter((pod) => pod.includes(text))} />;
}

function Picker({ label, onPick, find, autoFocus }: PickerProps & { readonly find: (text: string) => Promise<readonly string[]> }) {
  const id = useId();
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(0);
  const [answer, setAnswer] = useState<{ readonly text: string; readonly names: readonly string[] } | null>(null);
  // Names that were found for another text must not be picked by mistake.
  const isCurrent = answer?.text === text.trim();
  const found = isCurrent ? answer.names : [];

  useEffect(() => {
    if (!open) return;
    let current = true;
    const timer = setTimeout(() => {
      const wanted = text.trim();
      find(wanted).then(
        (names) => current && setAnswer({ text: wanted, names }),
        () => current && setAnswer({ text: wanted, names: [] }),
      );
    }, 120);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, open]);

  const pick = (value: string | undefined) => {
    if (!value) return;
    setText("");
    setOpen(false);
    onPick(value);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" && !open) setOpen(true);
    else if (event.key === "ArrowDown") setActive(Math.min(found.length - 1, active + 1));
    else if (event.key === "ArrowUp") setActive(Math.max(0, active - 1));
    else if (event.key === "Enter") pick(found[active]);
    else if (event.key === "Escape") setOpen(false);
    else return;
    event.preventDefault();
  };
  const expanded = open && found.length > 0;
  return (
    <div class="picker">
      <input
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={expanded}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        {...(expanded ? { "aria-activedescendant": `${id}-${active}` } : {})}
        placeholder={label}
        autocomplete="off"
        spellcheck={false}
        autoFocus={autoFocus}
        value={text}
        onClick={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
          setOpen(true);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={`${id}-list`} role="listbox" aria-label={label} hidden={!expanded}>
        {found.map((name, index) => (
          <li
            key={name}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === active}
            onPointerDown={(event) => {
              event.preventDefault();
              pick(name);
            }}
          >
            <bdi class="name">{printable(name)}</bdi>
          </li>
        ))}
      </ul>
      {open && text && isCurrent && found.length === 0 ? <p class="muted small">{t("picker.none")}</p> : null}
    </div>
  );
}

/**
 * Server-sent events with reconnection. EventSource reconnects by itself after most faults, but gives up after an error
 * status (a restarting server behind a proxy answers 502), so this opens a new one with increasing delays.
 */

export type StreamState = "connecting" | "open" | "lost";

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 30000;

export class EventStream {
  private source: EventSource | null = null;
  private timer = 0;
  private failures = 0;

  constructor(
    private readonly url: string,
    private readonly onState: (state: StreamState) => void,
    private readonly handlers: Readonly<Record<string, (data: unknown) => void>>,
  ) {}

  open(): void {
    this.close();
    const source = new EventSource(this.url);
    this.source = source;
    source.addEventListener("open", () => {
      this.failures = 0;
      this.onState("open");
    });
    source.addEventListener("error", () => {
      this.onState("lost");
      if (source.readyState !== EventSource.CLOSED) return;
      const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.failures++);
      this.timer = window.setTimeout(() => this.open(), delay);
    });
    for (const [name, handler] of Object.entries(this.handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse((event as MessageEvent<string>).data)));
    }
  }

  close(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}

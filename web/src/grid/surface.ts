/** The two canvases of the grid. All painting happens in one animation frame, at most once per frame. */

import type { Theme } from "../lib/load-scale";
import { type Link, type OverlayState, paintOverlay } from "./overlay";
import { paintCells, podAt, readPalette, type Palette, type Scene } from "./painter";

const FLIGHT_MS = 1200;
const FLIGHTS_AT_ONCE = 60;

export interface LocatedMove extends Link {
  readonly id: string;
}

interface ActiveFlight extends LocatedMove {
  readonly start: number;
}

export class GridSurface {
  private readonly cells: CanvasRenderingContext2D;
  private readonly overlay: CanvasRenderingContext2D;
  private scene: Scene | null = null;
  private palette: Palette | null = null;
  private marks: OverlayState = { hovered: -1, selected: -1, focused: -1, flights: [], links: [], drag: null };
  private flights: ActiveFlight[] = [];
  private flown = new Set<string>();
  private cellsChanged = false;
  private requested = 0;

  constructor(private readonly element: HTMLElement) {
    const [cells, overlay] = element.querySelectorAll("canvas");
    this.cells = cells!.getContext("2d")!;
    this.overlay = overlay!.getContext("2d")!;
  }

  show(scene: Omit<Scene, "palette">, theme: Theme): void {
    // The palette is read once per theme: reading computed styles in every frame would force a layout.
    if (this.palette?.theme !== theme) this.palette = readPalette(this.element, theme);
    if (this.scene?.width !== scene.width || this.scene.height !== scene.height) this.resize(scene.width, scene.height);
    this.scene = { ...scene, palette: this.palette };
    this.cellsChanged = true;
    this.request();
  }

  mark(marks: Partial<OverlayState>): void {
    this.marks = { ...this.marks, ...marks };
    this.request();
  }

  /** Animate each move once. Without motion the cells simply change. */
  fly(moves: readonly LocatedMove[]): void {
    const fresh = moves.filter((move) => !this.flown.has(move.id));
    this.flown = new Set(moves.map((move) => move.id));
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const start = performance.now();
    this.flights.push(...fresh.slice(0, FLIGHTS_AT_ONCE).map((move) => ({ ...move, start })));
    if (this.flights.length > 0) this.request();
  }

  /** The pod whose square is at a point of a cell, if the cell is large enough to show pods. */
  podAt(index: number, x: number, y: number): string | null {
    return this.scene ? podAt(this.scene, index, x, y) : null;
  }

  close(): void {
    cancelAnimationFrame(this.requested);
  }

  private resize(width: number, height: number): void {
    const ratio = devicePixelRatio || 1;
    for (const context of [this.cells, this.overlay]) {
      context.canvas.width = Math.round(width * ratio);
      context.canvas.height = Math.round(height * ratio);
      context.canvas.style.width = `${width}px`;
      context.canvas.style.height = `${height}px`;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      // Inter shows the x of a name such as 6x9 as a multiplication sign; this leaves such replacements out.
      context.textRendering = "optimizeSpeed";
    }
  }

  private request(): void {
    if (!this.requested) this.requested = requestAnimationFrame((time) => this.paint(time));
  }

  private paint(time: number): void {
    this.requested = 0;
    if (!this.scene) return;
    if (this.cellsChanged) paintCells(this.cells, this.scene);
    this.cellsChanged = false;
    this.flights = this.flights.filter((flight) => time - flight.start < FLIGHT_MS);
    const flights = this.flights.map((flight) => ({
      ...flight,
      progress: Math.min(1, Math.max(0, (time - flight.start) / FLIGHT_MS)),
    }));
    paintOverlay(this.overlay, this.scene, { ...this.marks, flights });
    if (this.flights.length > 0) this.request();
  }
}

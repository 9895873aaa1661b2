/** The node grid as a component: pointer, wheel, touch and keyboard become pan, zoom, hover, selection and drag. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Theme } from "../lib/load-scale";
import { cellAt, layOut, neighbor, type LayoutGroup } from "./layout";
import { type CellStyle, cellStyle, type GridNode } from "./painter";
import { GridSurface } from "./surface";
import { FITTED, pan, reveal, zoomAt, type Extent, type Viewport } from "./viewport";

export interface MoveFlight {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly pod: string;
  readonly newPod: string | null;
}

interface Props {
  readonly nodes: readonly GridNode[];
  readonly groups: readonly LayoutGroup[];
  readonly headings: readonly string[];
  readonly theme: Theme;
  readonly selected: string | null;
  /** Animated once each. */
  readonly flights: readonly MoveFlight[];
  /** Shown as long as they are there. */
  readonly links: readonly MoveFlight[];
  readonly label: string;
  readonly help: string;
  readonly tooltip: (node: GridNode, pod: string | null) => ComponentChildren;
  readonly announce: (node: GridNode) => string;
  readonly onOpen: (node: GridNode) => void;
  readonly onDrop: (pod: string, target: GridNode) => void;
  /** Called when zooming or another size changes what a cell shows. */
  readonly onStyle: (style: CellStyle) => void;
}

interface Hover {
  readonly index: number;
  readonly pod: string | null;
  readonly x: number;
  readonly y: number;
}

const NOTHING: Hover = { index: -1, pod: null, x: 0, y: 0 };
const DRAG_DISTANCE = 5;
/** The canvas is this much wider than the cells: lines of moves run there, and the cells end where the view does. */
const MARGIN = 12;

export function NodeGrid(props: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const surface = useRef<GridSurface | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [view, setView] = useState<Viewport>(FITTED);
  const [hover, setHover] = useState<Hover>(NOTHING);
  const [focused, setFocused] = useState(-1);
  const layout = useMemo(() => layOut(props.groups, Math.max(0, size.width - MARGIN), size.height), [props.groups, size]);
  const extent: Extent = {
    ...size,
    contentWidth: layout.width,
    contentHeight: layout.height,
    cellHeight: layout.cellHeight,
  };
  const style = cellStyle(layout.cellHeight * view.scale);
  useLayoutEffect(() => props.onStyle(style), [style]);
  const indexOf = useMemo(() => new Map(props.nodes.map((node, index) => [node.name, index])), [props.nodes]);

  useLayoutEffect(() => {
    const element = frame.current!;
    surface.current = new GridSurface(element);
    const observer = new ResizeObserver(() => {
      setSize({ width: element.clientWidth, height: element.clientHeight });
      setView(FITTED);
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      surface.current?.close();
    };
  }, []);

  useLayoutEffect(() => {
    surface.current?.show({ nodes: props.nodes, headings: props.headings, layout, view, ...size }, props.theme);
  }, [props.nodes, props.headings, props.theme, layout, view, size]);

  useLayoutEffect(() => {
    surface.current?.mark({ hovered: hover.index, selected: indexOf.get(props.selected ?? "") ?? -1, focused });
  }, [hover.index, props.selected, focused, indexOf]);

  const located = (moves: readonly MoveFlight[]) =>
    moves.flatMap((move) => {
      const [from, to] = [indexOf.get(move.from), indexOf.get(move.to)];
      return from === undefined || to === undefined ? [] : [{ ...move, from, to }];
    });
  useLayoutEffect(() => surface.current?.fly(located(props.flights)), [props.flights, indexOf]);
  useLayoutEffect(() => surface.current?.mark({ links: located(props.links) }), [props.links, indexOf]);

  const pointers = usePointers({
    frame,
    find: (x, y) => {
      const index = cellAt(layout, (x - view.x) / view.scale, (y - view.y) / view.scale);
      return { index, pod: index < 0 ? null : (surface.current?.podAt(index, x, y) ?? null), x, y };
    },
    hover: setHover,
    pan: (dx, dy) => setView((old) => pan(old, extent, dx, dy)),
    zoom: (factor, x, y) => setView((old) => zoomAt(old, extent, factor, x, y)),
    open: (index) => props.onOpen(props.nodes[index]!),
    drag: (drag) => surface.current?.mark({ drag }),
    drop: (pod, index) => props.onDrop(pod, props.nodes[index]!),
  });

  const onKeyDown = (event: KeyboardEvent) => {
    const go = (dx: -1 | 0 | 1, dy: -1 | 0 | 1) => {
      const next = focused < 0 ? 0 : neighbor(layout, focused, dx, dy);
      setFocused(next);
      const [x, y] = [layout.positions[next * 2] ?? 0, layout.positions[next * 2 + 1] ?? 0];
      setView((old) => reveal(old, extent, x, y, layout.cellWidth, layout.cellHeight));
    };
    const zoom = (factor: number) => setView((old) => zoomAt(old, extent, factor, size.width / 2, size.height / 2));
    const keys: Record<string, () => void> = {
      ArrowLeft: () => go(-1, 0),
      ArrowRight: () => go(1, 0),
      ArrowUp: () => go(0, -1),
      ArrowDown: () => go(0, 1),
      "+": () => zoom(1.4),
      "=": () => zoom(1.4),
      "-": () => zoom(1 / 1.4),
      "0": () => setView(FITTED),
      Enter: () => focused >= 0 && props.onOpen(props.nodes[focused]!),
      " ": () => focused >= 0 && props.onOpen(props.nodes[focused]!),
    };
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  };

  const tooltipNode = props.nodes[hover.index];
  const focusedNode = props.nodes[focused];
  return (
    <div class="grid-frame">
      <div
        ref={frame}
        class={`grid-canvas ${view.scale > 1 ? "zoomed" : ""}`}
        role="application"
        tabIndex={0}
        aria-label={props.label}
        aria-description={props.help}
        onKeyDown={onKeyDown}
        onBlur={() => setFocused(-1)}
        {...pointers}
      >
        <canvas aria-hidden="true" />
        <canvas aria-hidden="true" />
      </div>
      <p class="visually-hidden" role="status">
        {focusedNode ? props.announce(focusedNode) : ""}
      </p>
      {tooltipNode ? (
        <div
          class="grid-tooltip"
          aria-hidden="true"
          style={{
            left: `${Math.min(hover.x + 14, Math.max(0, size.width - 250))}px`,
            ...(hover.y > size.height / 2 ? { bottom: `${size.height - hover.y + 12}px` } : { top: `${hover.y + 16}px` }),
          }}
        >
          {props.tooltip(tooltipNode, hover.pod)}
        </div>
      ) : null}
    </div>
  );
}

interface PointerActions {
  readonly frame: { readonly current: HTMLDivElement | null };
  readonly find: (x: number, y: number) => Hover;
  readonly hover: (hover: Hover) => void;
  readonly pan: (dx: number, dy: number) => void;
  readonly zoom: (factor: number, x: number, y: number) => void;
  readonly open: (index: number) => void;
  readonly drag: (drag: { x: number; y: number; target: number } | null) => void;
  readonly drop: (pod: string, index: number) => void;
}

/** One pointer pans or drags a pod, two zoom; a press without movement opens the node. */
function usePointers(actions: PointerActions) {
  const pressed = useRef(new Map<number, { x: number; y: number }>());
  const press = useRef<{ start: Hover; moved: boolean } | null>(null);
  const latest = useRef(actions);
  latest.current = actions;

  useEffect(() => {
    const element = actions.frame.current!;
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const [x, y] = local(event);
      latest.current.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);

  const local = (event: MouseEvent): [number, number] => {
    const box = actions.frame.current!.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const moveOne = (event: PointerEvent, before: { x: number; y: number }, x: number, y: number) => {
    const current = press.current!;
    if (Math.hypot(x - current.start.x, y - current.start.y) > DRAG_DISTANCE) current.moved = true;
    if (!current.moved) return;
    actions.hover(NOTHING);
    if (current.start.pod) actions.drag({ x, y, target: actions.find(x, y).index });
    else if (event.buttons) actions.pan(x - before.x, y - before.y);
  };

  const moveTwo = (id: number, before: { x: number; y: number }, x: number, y: number) => {
    const other = [...pressed.current].find(([key]) => key !== id)![1];
    const old = Math.hypot(before.x - other.x, before.y - other.y);
    const now = Math.hypot(x - other.x, y - other.y);
    if (old > 0) actions.zoom(now / old, (x + other.x) / 2, (y + other.y) / 2);
  };

  return {
    onPointerDown: (event: PointerEvent) => {
      const [x, y] = local(event);
      pressed.current.set(event.pointerId, { x, y });
      press.current = { start: actions.find(x, y), moved: pressed.current.size > 1 };
      actions.frame.current!.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event: PointerEvent) => {
      const [x, y] = local(event);
      const before = pressed.current.get(event.pointerId);
      if (!before) {
        actions.hover(actions.find(x, y));
        return;
      }
      if (pressed.current.size > 1) moveTwo(event.pointerId, before, x, y);
      else moveOne(event, before, x, y);
      pressed.current.set(event.pointerId, { x, y });
    },
    onPointerUp: (event: PointerEvent) => {
      const [x, y] = local(event);
      const current = press.current;
      pressed.current.delete(event.pointerId);
      press.current = null;
      actions.drag(null);
      if (!current) return;
      const target = actions.find(x, y);
      if (!current.moved && target.index >= 0) actions.open(target.index);
      if (current.moved && current.start.pod && target.index >= 0 && target.index !== current.start.index) {
        actions.drop(current.start.pod, target.index);
      }
    },
    onPointerCancel: (event: PointerEvent) => {
      pressed.current.delete(event.pointerId);
      press.current = null;
      actions.drag(null);
    },
    onPointerLeave: () => actions.hover(NOTHING),
  };
}

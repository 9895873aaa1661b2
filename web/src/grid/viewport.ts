/** Pan and zoom as a pure transform: screen = world × scale + offset. */

export interface Viewport {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export const FITTED: Viewport = { x: 0, y: 0, scale: 1 };
const LARGEST_CELL = 260;

export interface Extent {
  readonly width: number;
  readonly height: number;
  readonly contentWidth: number;
  readonly contentHeight: number;
  readonly cellHeight: number;
}

export function zoomAt(view: Viewport, extent: Extent, factor: number, x: number, y: number): Viewport {
  const most = Math.max(1, LARGEST_CELL / extent.cellHeight);
  const scale = Math.min(most, Math.max(1, view.scale * factor));
  const ratio = scale / view.scale;
  return clamp({ x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, scale }, extent);
}

export function pan(view: Viewport, extent: Extent, dx: number, dy: number): Viewport {
  return clamp({ x: view.x + dx, y: view.y + dy, scale: view.scale }, extent);
}

/** Move as little as needed to show a rectangle of the world. */
export function reveal(view: Viewport, extent: Extent, x: number, y: number, width: number, height: number): Viewport {
  const margin = 24;
  const left = x * view.scale + view.x;
  const top = y * view.scale + view.y;
  const right = left + width * view.scale;
  const bottom = top + height * view.scale;
  const dx = left < margin ? margin - left : right > extent.width - margin ? extent.width - margin - right : 0;
  const dy = top < margin ? margin - top : bottom > extent.height - margin ? extent.height - margin - bottom : 0;
  return pan(view, extent, dx, dy);
}

/** The content can't be pushed out of sight. */
function clamp(view: Viewport, extent: Extent): Viewport {
  const leastX = Math.min(0, extent.width - extent.contentWidth * view.scale);
  const leastY = Math.min(0, extent.height - extent.contentHeight * view.scale);
  return {
    x: Math.min(0, Math.max(leastX, view.x)),
    y: Math.min(0, Math.max(leastY, view.y)),
    scale: view.scale,
  };
}

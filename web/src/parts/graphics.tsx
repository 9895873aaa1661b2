/** Graphics with a table behind each: charts over time and histograms. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import uPlot from "uplot";
import { plural, t } from "../i18n";
import { count, decimal, exactTime, LOCALES } from "../lib/format";
import { loadColor } from "../lib/load-scale";
import { language, theme } from "../store";
import type { HistogramView } from "../api/types.gen";
import { DataTable } from "./data-table";

/** A graphic and the same data as a table, one at a time. */
export function Graphic(props: { readonly title: string; readonly note?: string; readonly graphic: ComponentChildren; readonly table: ComponentChildren }) {
  const [asTable, setAsTable] = useState(false);
  return (
    <figure class="graphic">
      <figcaption class="section-head">
        <h3>{props.title}</h3>
        {props.note ? <span class="muted small">{props.note}</span> : null}
        <span class="spring" />
        <button type="button" class="plain small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {t("graphic.table")}
          <span class="visually-hidden">: {props.title}</span>
        </button>
      </figcaption>
      {asTable ? props.table : props.graphic}
    </figure>
  );
}

interface Bin {
  readonly from: number;
  readonly to: number;
  readonly before: number;
  readonly after: number;
}

export function binsOf(histogram: HistogramView): readonly Bin[] {
  return histogram.before.map((before, index) => ({
    from: histogram.edges[index] ?? 0,
    to: histogram.edges[index + 1] ?? Math.max(100, (histogram.edges[index] ?? 0) + 10),
    before,
    after: histogram.after[index] ?? 0,
  }));
}

const WIDTH = 320;
const HEIGHT = 96;
/** Where the highest bar ends. */
const TOP = 6;

/** Two histograms with one scale, so that their heights can be compared. */
export function BeforeAfter({ histogram, title }: { readonly histogram: HistogramView; readonly title: string }) {
  const bins = binsOf(histogram);
  const most = Math.max(1, ...bins.map(({ before, after }) => Math.max(before, after)));
  const range = (from: number, to: number) => `${Math.round(from)}–${Math.round(to)}%`;
  const figures = (mean: number, deviation: number, lowest: number, highest: number) => ({
    mean: t("histogram.figures", { mean: decimal(mean, 0, language.value), deviation: decimal(deviation, 1, language.value) }),
    spread: t("histogram.spread", { spread: decimal(highest - lowest, 0, language.value) }),
  });
  const one = (label: string, values: readonly number[], mean: number, note: { readonly mean: string; readonly spread: string }) => (
    <div class="histogram">
      <p class="small">
        <strong>{label}</strong>{" "}
        <span class="muted">
          {note.mean}
          <span class="wide-only">{note.spread}</span>
        </span>
      </p>
      <span class="histogram-most" aria-hidden="true" title={t("histogram.most", { nodes: plural("nodes", most) })}>
        {count(most, language.value)}
      </span>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT + 1}`} role="img" aria-label={`${title}, ${label}: ${note.mean}${note.spread}`}>
        {bins.map((bin, index) => {
          const height = (values[index]! / most) * (HEIGHT - TOP);
          const width = WIDTH / bins.length;
          return (
            <rect
              key={bin.from}
              x={index * width + 1}
              y={HEIGHT - height}
              width={width - 2}
              height={Math.max(height, values[index] ? 1.5 : 0)}
              fill={loadColor((bin.from + bin.to) / 2, theme.value)}
              class="bin"
            >
              <title>{`${range(bin.from, bin.to)}: ${count(values[index]!, language.value)}`}</title>
            </rect>
          );
        })}
        <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} class="axis" />
        <line x1="0" x2={WIDTH} y1={TOP} y2={TOP} class="most" />
        <line x1={(mean / 100) * WIDTH} x2={(mean / 100) * WIDTH} y1={TOP} y2={HEIGHT} class="mean" />
      </svg>
      <p class="ticks" aria-hidden="true">
        <span>0%</span>
        <span>50%</span>
        <span>100%</span>
      </p>
    </div>
  );
  return (
    <Graphic
      title={title}
      graphic={
        <div class="before-after">
          {one(
            t("histogram.before"),
            bins.map(({ before }) => before),
            histogram.meanBefore,
            figures(histogram.meanBefore, histogram.deviationBefore, histogram.lowestBefore, histogram.highestBefore),
          )}
          {one(
            t("histogram.after"),
            bins.map(({ after }) => after),
            histogram.meanAfter,
            figures(histogram.meanAfter, histogram.deviationAfter, histogram.lowestAfter, histogram.highestAfter),
          )}
        </div>
      }
      table={
        <DataTable
          caption={title}
          rows={bins}
          rowKey={({ from }) => String(from)}
          columns={[
            { key: "load", title: t("column.load"), cell: ({ from, to }) => range(from, to) },
            { key: "before", title: t("histogram.before"), numeric: true, cell: ({ before }) => count(before, language.value) },
            { key: "after", title: t("histogram.after"), numeric: true, cell: ({ after }) => count(after, language.value) },
          ]}
        />
      }
    />
  );
}

export interface Series {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** A custom property of the design. */
  readonly color: string;
  readonly dashed?: boolean;
}

interface ChartProps {
  readonly title: string;
  readonly note?: string;
  /** Seconds since 1970. */
  readonly at: readonly number[];
  readonly series: readonly Series[];
  readonly height?: number;
}

/** Percent over time. */
export function TimeChart(props: ChartProps) {
  const rows = props.at.map((at, index) => ({ at, index })).reverse();
  return (
    <Graphic
      title={props.title}
      {...(props.note ? { note: props.note } : {})}
      graphic={<Plot {...props} />}
      table={
        <DataTable
          caption={props.title}
          rows={rows}
          rowKey={({ at }) => String(at)}
          columns={[
            { key: "at", title: t("column.time"), cell: ({ at }) => exactTime(at * 1000, language.value) },
            ...props.series.map((series) => ({
              key: series.label,
              title: series.label,
              numeric: true,
              cell: ({ index }: { index: number }) => {
                const value = series.values[index];
                return value === null || value === undefined ? "–" : `${decimal(value, 1, language.value)}%`;
              },
            })),
          ]}
        />
      }
    />
  );
}

function Plot({ at, series, height = 160, title }: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const data = [at, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData;
  const shape = `${theme.value}/${language.value}/${series.map(({ label }) => label).join()}`;

  useEffect(() => {
    const container = element.current!;
    const style = getComputedStyle(container);
    const token = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: token("--muted"), grid: { stroke: token("--line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
    // Ticks that are less than a minute apart need seconds to differ.
    const clock = (step: number) =>
      new Intl.DateTimeFormat(LOCALES[language.peek()], { hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}) });
    chart.current = new uPlot(
      {
        width: container.clientWidth || 300,
        height,
        legend: { show: false },
        cursor: { points: { show: false }, drag: { x: false, y: false } },
        scales: {
          // At least half a minute: a chart of a few seconds shows noise, and its ticks repeat.
          x: { range: (_, first, last) => [Math.min(first ?? 0, (last ?? 0) - 30), last ?? 0] },
          // From zero, so that charts of several resources can be compared, and up to a tick.
          y: { range: (_, __, high) => [0, Math.max(20, Math.ceil((high ?? 100) / 20) * 20)] },
        },
        axes: [
          { ...axis, size: 24, space: 90, values: (_, ticks) => ticks.map((tick) => clock((ticks[1] ?? 60) - (ticks[0] ?? 0)).format(tick * 1000)) },
          { ...axis, size: 40, incrs: [20, 40, 100, 200, 500, 1000], values: (_, ticks) => ticks.map((tick) => `${tick}%`) },
        ],
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            stroke: token(each.color),
            width: 1.5,
            points: { show: false },
            ...(each.dashed ? { dash: [4, 3] } : {}),
          })),
        ],
      },
      data,
      container,
    );
    const observer = new ResizeObserver(() => chart.current?.setSize({ width: container.clientWidth, height }));
    observer.observe(container);
    return () => {
      observer.disconnect();
      chart.current?.destroy();
    };
  }, [shape, height]);

  useEffect(() => chart.current?.setData(data), [at, series]);

  return (
    <>
      <div ref={element} class="chart" role="img" aria-label={title} />
      <ul class="legend" aria-hidden="true">
        {series.map((each) => (
          <li key={each.label} class={each.dashed ? "dashed" : undefined} style={{ "--swatch": `var(${each.color})` }}>
            {each.label}
          </li>
        ))}
      </ul>
    </>
  );
}

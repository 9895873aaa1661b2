import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/views.css";
import { App } from "./app";
import { startRouter } from "./lib/router";
import { language, start, theme } from "./store";

// Before anything is painted: canvases read their colors from the style sheet of the theme.
effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});
startRouter();
render(<App />, document.getElementById("app")!);
void start();

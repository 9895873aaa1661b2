import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/views.css";
import { App } from "./app";
import { startRouter } from "./lib/router";
import { start } from "./store";

startRouter();
render(<App />, document.getElementById("app")!);
void start();

import { render } from "preact";
import { startLive } from "./lib/live";
import { startRouter } from "./lib/router";
import { startTheme } from "./lib/theme";
import { Shell } from "./shell";
import "./styles/app.css";

startTheme();
startRouter();
startLive();
const root = document.getElementById("app");
if (root) render(<Shell />, root);

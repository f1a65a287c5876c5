import { render } from "preact";
import { startRouter } from "./lib/router";
import { startSession } from "./lib/session";
import { startTheme } from "./lib/theme";
import { Console } from "./shell";
import "./styles/app.css";

startTheme();
startRouter();
startSession();
const root = document.getElementById("app");
if (root) render(<Console />, root);

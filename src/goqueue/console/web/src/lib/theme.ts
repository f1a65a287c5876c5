// What this browser's user prefers: light or dark, and which clock times are told by.
import { Preference } from "./store";

export const theme = new Preference("goqueue.theme", ["auto", "light", "dark"] as const, "auto");
export const clock = new Preference("goqueue.clock", ["local", "utc"] as const, "local");

export function startTheme(): void {
  const show = (value: string) => {
    document.documentElement.dataset["theme"] = value;
  };
  show(theme.value);
  theme.subscribe(show);
}

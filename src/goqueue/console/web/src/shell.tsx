// What is around every page: navigation, the state of the connection, the switches, questions, notes.
import { useEffect, useRef, useState } from "preact/hooks";
import { Questions } from "./kit/dialog";
import { Icon } from "./kit/icons";
import { Empty, IconButton, PageHead, Status, type Tone, useNow } from "./kit/parts";
import { toast, Toasts } from "./kit/toasts";
import { oneLine } from "./lib/content";
import { duration } from "./lib/format";
import { arrivals, awaySince, type Connection, connection, overview, startLive } from "./lib/live";
import { Link, match, usePlace } from "./lib/router";
import { askSession, isSignedOut, nameOf, session, signOut } from "./lib/session";
import { useStore } from "./lib/store";
import { clock, theme } from "./lib/theme";
import { openPalette, Palette } from "./palette";
import { type ConsolePage, PAGES } from "./pages";
import { SignInPage } from "./pages/sign-in";

/** The sign-in page, or the pages. */
export function Console() {
  const found = useStore(session);
  const back = useStore(arrivals);
  useEffect(() => {
    if (back > 0) void askSession();
  }, [back]);
  if (found === null) return null;
  if (isSignedOut(found)) return <SignInPage session={found} />;
  return <Shell key={found.principal} />;
}

function Shell() {
  const { path } = usePlace();
  const found = match(PAGES, path);
  const [isOpen, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useShortcuts();
  useEffect(() => startLive(), []);
  useEffect(() => {
    setOpen(false);
    if (isFirst.current) isFirst.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      setOpen(false);
      document.getElementById("navigation-button")?.focus();
    };
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [isOpen]);
  return (
    <div class={isOpen ? "shell nav-open" : "shell"}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="topbar">
        <IconButton
          id="navigation-button"
          label={isOpen ? "Close navigation" : "Open navigation"}
          icon={isOpen ? "close" : "menu"}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        />
        <Brand />
        <Live />
      </header>
      <Sidebar current={found?.page} />
      <div class="content">
        <AwayBanner />
        <main id="main" ref={main} tabIndex={-1}>
          {found ? (
            <found.page.component key={path} params={found.params} />
          ) : (
            <NoSuchPage path={path} />
          )}
        </main>
      </div>
      <Palette />
      <Questions />
      <Toasts />
    </div>
  );
}

function Brand() {
  return (
    <Link to="/" class="brand" aria-label="GoQueue, to the overview">
      <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
        <rect class="brand-back" width="32" height="32" rx="8" />
        <path class="brand-lines" d="M8 11h10M8 16h16M8 21h7" />
        <circle class="brand-dots" cx="23" cy="11" r="2" />
        <circle class="brand-dots" cx="20" cy="21" r="2" />
      </svg>
      <span>GoQueue</span>
    </Link>
  );
}

function Sidebar({ current }: { current: ConsolePage | undefined }) {
  const at = current?.under ?? current?.path;
  const who = useStore(session);
  const pages = PAGES.filter((page) => page.nav && (!page.needs || who?.allowed[page.needs]));
  const said = useStore(overview);
  const urgent = said?.attention.filter((each) => each.severity !== "info").length ?? 0;
  return (
    <aside class="sidebar" aria-label="GoQueue">
      <Brand />
      <button type="button" class="palette-button" aria-keyshortcuts="Control+K Meta+K" onClick={openPalette}>
        <Icon name="search" />
        <span>Go to…</span>
        <kbd>Ctrl K</kbd>
      </button>
      <nav aria-label="Console">
        <ul>
          {pages.map((page) => (
            <li key={page.path}>
              <Link to={page.path} aria-current={page.path === at ? "page" : undefined}>
                {page.nav && <Icon name={page.nav.icon} />}
                <span>{page.nav?.label}</span>
                {page.path === "/" && urgent > 0 && (
                  <span class="nav-count" aria-label={`${urgent} need attention`}>
                    {urgent}
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <div class="sidebar-foot">
        <Live />
        <div class="switches">
          <ClockSwitch />
          <ThemeSwitch />
        </div>
        <SignedIn />
        <p class="muted small">
          {said ? `Node ${said.node_id} · ${said.version}` : "\u00a0"}
          <br />
          <a href="/docs">API</a>
        </p>
      </div>
    </aside>
  );
}

function SignedIn() {
  const who = useStore(session);
  if (!who?.principal) return null;
  return (
    <div class="signed-in">
      <span class="who" title={who.roles.length ? `Roles: ${who.roles.join(", ")}` : "No roles"}>
        {oneLine(nameOf(who.principal), 40)}
      </span>
      {who.csrf_token && (
        <button type="button" class="text-button" onClick={() => void signOut().catch(toast.problem)}>
          Sign out
        </button>
      )}
    </div>
  );
}

const STATES: Record<Connection, { tone: Tone; text: string }> = {
  connecting: { tone: "neutral", text: "Connecting" },
  live: { tone: "good", text: "Live" },
  polling: { tone: "warn", text: "Polling" },
  away: { tone: "bad", text: "Away" },
  paused: { tone: "neutral", text: "Paused" },
};

function Live() {
  const { tone, text } = STATES[useStore(connection)];
  return (
    <span class="live">
      <Status tone={tone}>{text}</Status>
    </span>
  );
}

function AwayBanner() {
  const state = useStore(connection);
  const since = useStore(awaySince);
  const now = useNow(1000);
  return (
    <div role="status" aria-live="assertive">
      {state === "away" && (
        <div class="banner">
          <Icon name="critical" />
          <p>
            <strong>Cannot reach the broker.</strong> The data shown may be out of date. The page
            tries again by itself
            {since !== null && <span aria-hidden="true"> ({duration(Math.max(0, now - since))})</span>}.
          </p>
        </div>
      )}
    </div>
  );
}

function ThemeSwitch() {
  const value = useStore(theme);
  const icon = value === "light" ? "sun" : value === "dark" ? "moon" : "auto";
  return <IconButton label={`Colours: ${value}`} icon={icon} onClick={() => theme.next()} />;
}

function ClockSwitch() {
  const value = useStore(clock);
  return (
    <button
      type="button"
      class="text-button"
      title="Time zone"
      onClick={() => clock.next()}
    >
      {value === "utc" ? "UTC" : "Local time"}
    </button>
  );
}

function NoSuchPage({ path }: { path: string }) {
  return (
    <>
      <PageHead title="Page not found" />
      <Empty title={`/console${path} does not exist`}>
        <Link to="/">Go to the overview</Link>
      </Empty>
    </>
  );
}

/** `/` goes to the search of the page. */
function useShortcuts(): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, select, [contenteditable], dialog")) return;
      const box = document.querySelector<HTMLInputElement>("main [data-search]");
      if (!box) return;
      event.preventDefault();
      box.focus();
      box.select();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
}

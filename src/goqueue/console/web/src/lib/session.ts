// Who is signed in. Where the broker asks nobody who they are, that is said here too: then everything
// may be done, and there is nothing to sign in to.
import { api, credentials, Problem } from "./api";
import { Store } from "./store";

type SignInMethod = "password" | "key" | "oidc";

export type Session = {
  is_required: boolean;
  principal: string | null;
  kind: string | null;
  roles: string[];
  allowed: { create_topics: boolean; see_cluster: boolean; change_access: boolean };
  methods: SignInMethod[];
  csrf_token: string | null;
  expires_at: number | null;
};

/** Null until the broker has been asked. */
export const session = new Store<Session | null>(null);

const UNKNOWN: Session = {
  is_required: false,
  principal: null,
  kind: null,
  roles: [],
  allowed: { create_topics: true, see_cluster: true, change_access: true },
  methods: [],
  csrf_token: null,
  expires_at: null,
};

export function isSignedOut(found: Session | null): boolean {
  return found !== null && found.is_required && found.principal === null;
}

/** Asks the broker who we are; one that is away lets the pages say so. */
export async function askSession(): Promise<void> {
  try {
    take(await api.get<Session>("/session"));
  } catch (error) {
    if (error instanceof Problem && error.isAway) session.set(session.value ?? UNKNOWN);
    else session.set(UNKNOWN);
  }
}

export async function signIn(body: { user: string; password: string } | { key: string }): Promise<void> {
  take(await api.post<Session>("/session", body));
}

export async function signOut(): Promise<void> {
  await api.delete("/session");
  await askSession();
}

/** `User:alice` as people say it. */
export function nameOf(principal: string): string {
  return principal.replace(/^User:/, "");
}

function take(found: Session): void {
  credentials.csrfToken = found.csrf_token;
  session.set(found);
}

export function startSession(): void {
  credentials.onRefused = () => void askSession();
  void askSession();
}

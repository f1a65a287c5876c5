// Where somebody says who they are, before anything else is shown.
import { useState } from "preact/hooks";
import { Form, Segmented, TextField } from "../kit/form";
import { Note, PageHead } from "../kit/parts";
import { type Session, signIn } from "../lib/session";

const WAYS = [
  { value: "password", label: "User and password" },
  { value: "key", label: "API key" },
];

export function SignInPage({ session }: { session: Session }) {
  const [way, setWay] = useState("password");
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [key, setKey] = useState("");
  const hasFailed = new URLSearchParams(window.location.search).get("sign-in") === "failed";
  const submit = () => signIn(way === "key" ? { key } : { user, password });
  return (
    <main class="sign-in" id="main">
      <PageHead title="Sign in" lead="Use a user's password or an API key." />
      {hasFailed && (
        <Note tone="bad">
          The sign-in at your organisation’s provider failed. Try again; the broker’s log says why.
        </Note>
      )}
      {session.methods.includes("oidc") && (
        <a class="button primary" href="/session/oidc">
          Sign in with your organisation
        </a>
      )}
      <Segmented label="How to sign in" value={way} onChange={setWay} choices={WAYS} />
      <Form verb="Sign in" onSubmit={submit}>
        {way === "password" ? (
          <>
            <TextField
              label="User"
              name="user"
              autocomplete="username"
              value={user}
              onChange={setUser}
            />
            <TextField
              label="Password"
              name="password"
              type="password"
              autocomplete="current-password"
              value={password}
              onChange={setPassword}
            />
          </>
        ) : (
          <TextField
            label="API key"
            name="key"
            type="password"
            mono
            value={key}
            onChange={setKey}
            hint="It starts with gq_. A token of your organisation’s provider works, too."
          />
        )}
      </Form>
    </main>
  );
}

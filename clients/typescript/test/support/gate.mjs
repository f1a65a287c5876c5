// A proxy before the broker that injects faults: one for each request, then none.
//   { status, headers }  refuse, the broker sees nothing
//   "lose request"       close the connection, the broker sees nothing
//   "lose answer"        let the broker answer, then close the connection

import { once } from "node:events";
import { createServer } from "node:http";

export async function gate(upstream, faults) {
  const waiting = [...faults];
  const seen = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const fault = waiting.shift();
    seen.push({ at: Date.now(), path: request.url });
    if (fault === "lose request") return request.socket.destroy();
    if (fault?.status) {
      const body = { status: fault.status, code: fault.code ?? "refused", detail: "refused by the gate" };
      return response.writeHead(fault.status, fault.headers ?? {}).end(JSON.stringify(body));
    }
    const { host: _, connection: __, ...headers } = request.headers;
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    delete headers["content-length"];
    const answer = await fetch(upstream + request.url, { method: request.method, headers, body });
    const text = await answer.text();
    if (fault === "lose answer") return request.socket.destroy();
    response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    seen,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

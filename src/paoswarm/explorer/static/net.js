// Questions to the server, and its answers.

// An answer may hold packed arrays of doubles: {f64: base64, shape: [...]}.
function unpack(thing) {
  if (Array.isArray(thing)) return thing.map(unpack);
  if (thing === null || typeof thing !== "object") return thing === "inf" ? Infinity : thing === "-inf" ? -Infinity : thing;
  if (typeof thing.f64 === "string") {
    const numbers = new Float64Array(bytes(thing.f64).buffer);
    if (thing.shape.length < 2) return numbers;
    const rows = [], width = thing.shape[1];
    for (let i = 0; i < thing.shape[0]; i++) rows.push(numbers.subarray(i * width, (i + 1) * width));
    return rows;
  }
  return Object.fromEntries(Object.entries(thing).map(([key, value]) => [key, unpack(value)]));
}

export function bytes(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

const trouble = document.getElementById("trouble");

export function complain(text) {
  trouble.textContent = text;
  trouble.hidden = !text;
}

export async function ask(what, body = {}) {
  let response;
  try {
    response = await fetch(`api/${what}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The explorer has ended. Start `paoswarm explore` again.");
  }
  const answer = await response.json().catch(() => ({ error: "The explorer gave no answer." }));
  if (!response.ok) throw new Error(answer.error);
  return unpack(answer);
}

// One question at a time: while one is under way, only the newest of the others is kept.
export function latest(what, show) {
  let waiting = null, busy = false;
  return async function send(body) {
    waiting = body;
    if (busy) return;
    busy = true;
    while (waiting) {
      const now = waiting;
      waiting = null;
      try {
        const answer = await ask(what, now);
        complain("");
        show(answer, now);
      } catch (error) {
        complain(error.message);
      }
    }
    busy = false;
  };
}

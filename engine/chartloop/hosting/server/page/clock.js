// The server's time. A person's own clock may be wrong, and what is due or over is so by that of the server.
//
// Belongs here: what time it is. Never: how a time reads.

const NOISE = 3_000; // ms: the header is in whole seconds, and an answer takes its time
let ahead = 0; // ms by which the server's clock is ahead of the one here

/** Now, in seconds since the epoch. */
export const now = () => (Date.now() + ahead) / 1000;

/** Takes the time from an answer that has just come. */
export function tellTime(answer) {
  const found = Date.parse(answer.headers.get("Date") ?? "") + 500 - Date.now();
  if (Math.abs(found - ahead) > NOISE) ahead = Math.abs(found) > NOISE ? found : 0; // NaN changes nothing
}

// Unknowns as they are drawn: some on a logarithmic scale, choices by their entries.

import { show } from "./plot.js";

// Where a number lies between two others, from 0 to 1.
export function shareOf(isLog, number, low, high) {
  return isLog ? Math.log(number / low) / Math.log(high / low) : (number - low) / (high - low);
}

// The number at a share; the inverse.
export function numberAt(isLog, share, low, high) {
  return isLog ? low * (high / low) ** share : low + share * (high - low);
}

export function say(view, j, number, digits) {
  const entries = view.entries[j];
  return entries ? (entries[Math.round(number)] ?? "–") : show(number, digits);
}

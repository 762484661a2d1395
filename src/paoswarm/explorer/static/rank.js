// Where a loss lies among all others: 0 for the best, 1 for the worst. `losses` are their percentiles.
export function rank(losses, loss) {
  if (!losses.length || !(loss < Infinity)) return 1;
  let low = 0, high = losses.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (losses[middle] < loss) low = middle + 1; else high = middle;
  }
  return low / (losses.length - 1 || 1);
}

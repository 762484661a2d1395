// One swarm, or a few, in the shared memory of the whole device for all generations of a call.
//
// Defined before: PARTICLES (of a block).

#define STRIDE (D | 1)  // an odd stride: threads that read the same unknown of different particles do not collide

// The lowest of the ranks of all threads of a block, known to all of them.
__device__ u64 lowest_of_block(u64 rank) {
  __shared__ u64 ranks[THREADS / 32];
  for (int reach = 16; reach; reach >>= 1) rank = min(rank, __shfl_xor_sync(0xFFFFFFFFu, rank, reach));
  if (threadIdx.x % 32 == 0) ranks[threadIdx.x / 32] = rank;
  __syncthreads();
  for (int i = 0; i < THREADS / 32; ++i) rank = min(rank, ranks[i]);
  return rank;
}

// Wait until all blocks of a run are here. What they wrote before can be read after, if not from the first cache.
__device__ void wait_for_all(u32 *arrived, u32 &expected) {
  expected += gridDim.x;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*(volatile u32 *)arrived < expected);
    __threadfence();
  }
  __syncthreads();
}

#if HAS_TOL
// The sum of one number and the largest of another over all threads of all blocks of a run, always in the same order.
__device__ void over_the_run(float &sum, float &most, float *sums, u32 *arrived, u32 &expected) {
  __shared__ float parts[2][THREADS / 32];
  for (int pass = 0; pass < 2; ++pass) {
    for (int reach = 16; reach; reach >>= 1) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, reach);
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, reach));
    }
    if (threadIdx.x % 32 == 0) parts[0][threadIdx.x / 32] = sum, parts[1][threadIdx.x / 32] = most;
    __syncthreads();
    sum = 0.0f, most = -INFINITY;
    for (int i = 0; i < THREADS / 32; ++i) sum += parts[0][i], most = fmaxf(most, parts[1][i]);
    if (pass) return;
    if (threadIdx.x == 0) sums[2 * blockIdx.x] = sum, sums[2 * blockIdx.x + 1] = most;
    wait_for_all(arrived, expected);
    sum = 0.0f, most = -INFINITY;
    for (int i = threadIdx.x; i < gridDim.x; i += THREADS)
      sum += __ldcg(sums + 2 * i), most = fmaxf(most, __ldcg(sums + 2 * i + 1));
  }
}
#endif

// Begin (if asked), then as many generations as asked. Blocks (parts, runs); each has PARTICLES particles of a run in
// shared memory. State is (runs, N, D) and (runs, N). Blocks tell each other of better points through NEXT (3, runs),
// their rank, and SLOT (3, runs, parts, D), their place; SUMS (runs, parts, 2) and ARRIVED (runs,) are for the rest.
extern "C" __global__ void __launch_bounds__(THREADS)
together(float *X, float *V, float *L, float *F, float *FL, float *AGE, float *LEAD, int *STALE, int *NIT,
         long long *NFEV, int *NFAILED, int *STATUS, int *RULE, float *HISTORY, const u32 *KEYS, const float *TABLE,
         int length, const float *LOWER, const float *UPPER, u64 *NEXT, float *SLOT, float *SUMS, u32 *ARRIVED,
         int begins, int half, int count, RULES) {
  READ_RULES;
  extern __shared__ float x[];
  float *v = x + PARTICLES * STRIDE, *best = v + PARTICLES * D;
  __shared__ float value[PARTICLES], best_value[PARTICLES], age[PARTICLES];
  __shared__ bool improved[PARTICLES];
  __shared__ Shared shared[D];
  __shared__ int failures;
  const int runs = gridDim.y, run = blockIdx.y, p0 = blockIdx.x * PARTICLES, own = min(PARTICLES, N - p0);
  const size_t first = (size_t)run * N + p0;
  u32 *arrived = ARRIVED + run, expected = 0;
  for (int j = threadIdx.x; j < D; j += THREADS) shared[j].low = LOWER[j], shared[j].high = UPPER[j];
  if (threadIdx.x == 0) failures = 0;
  for (int e = threadIdx.x; e < own * D; e += THREADS) {
    const int i = e / D, j = e - i * D;
    const size_t at = first * D + e;
    const float place = begins == 1 ? first_place(p0 + i, j, KEYS + 2 * run, LOWER[j], UPPER[j], half) : X[at];
    x[i * STRIDE + j] = place;
    v[e] = begins ? 0.0f : V[at];
    best[e] = begins ? place : L[at];
  }
  __syncthreads();
  u64 rank = NOBODY, top = NOBODY;
  for (int i = threadIdx.x; i < own; i += THREADS) {
    value[i] = begins ? measured(x + i * STRIDE) : F[first + i];
    best_value[i] = begins ? (isnan(value[i]) ? INFINITY : value[i]) : FL[first + i];
    age[i] = begins ? 0.0f : AGE[first + i];
    if (begins && isnan(value[i])) atomicAdd(&failures, 1);
    rank = min(rank, rank_of(best_value[i], p0 + i));
  }
  int stale = begins ? 0 : STALE[run], nit = begins ? 0 : NIT[run], status = begins ? RUNNING : STATUS[run];
  int rule = begins ? 0 : RULE[run];
  const u32 k0 = KEYS[2 * run], k1 = KEYS[2 * run + 1];
  const int last = (int)min((rules.budget - 1) / N, 2147483647ll);
  const int in_last = (int)min(rules.budget - (long long)N * last, (long long)N);
  // The first round only finds the leader; each of the others is a generation.
  for (int t = -1; t < count; ++t) {
    const bool is_step = t >= 0;
    if (is_step) {
      if (status != RUNNING || nit >= last) break;
      const int generation = nit + 1, moved = generation < last ? own : max(0, min(own, in_last - p0));
      const Row row = read_row(TABLE, length, generation);
      const u32 key = hashed(k1 + hashed(generation));
      for (int e = threadIdx.x; e < moved * D; e += THREADS) {
        const int i = e / D, j = e - i * D;
        step(x[i * STRIDE + j], v[e], best[e], shared[j], row, (u32)p0 * D + e, k0, key);
      }
      __syncthreads();
      rank = NOBODY;
      for (int i = threadIdx.x; i < own; i += THREADS) {
        improved[i] = false;
        if (i >= moved) continue;
        value[i] = measured(x + i * STRIDE);
        if (isnan(value[i])) atomicAdd(&failures, 1);
        improved[i] = value[i] < best_value[i];
        age[i] = improved[i] ? 0.0f : age[i] + 1.0f;
        if (improved[i]) best_value[i] = value[i], rank = min(rank, rank_of(value[i], p0 + i));
      }
      __syncthreads();
      for (int e = threadIdx.x; e < moved * D; e += THREADS) {
        const int i = e / D;
        if (improved[i]) best[e] = x[i * STRIDE + e - i * D];
      }
    }
    const int buffer = (t + 3) % 3;
    rank = lowest_of_block(rank);
    if (rank < top) {
      float *slot = SLOT + ((size_t)(buffer * runs + run) * gridDim.x + blockIdx.x) * D;
      for (int j = threadIdx.x; j < D; j += THREADS) slot[j] = best[((u32)rank - p0) * D + j];
      __syncthreads();
      if (threadIdx.x == 0) atomicMin(NEXT + buffer * runs + run, rank);
    }
    wait_for_all(arrived, expected);
    const u64 winner = *(volatile u64 *)(NEXT + buffer * runs + run);
    if (is_step) stale += 1, nit += 1;
    if (winner < top) {
      if (is_step && winner >> 32 < top >> 32) stale = 0;
      top = winner;
      const float *slot = SLOT + ((size_t)(buffer * runs + run) * gridDim.x + (u32)winner / PARTICLES) * D;
      for (int j = threadIdx.x; j < D; j += THREADS) shared[j].leader = __ldcg(slot + j);
    }
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      NEXT[(t + 2) % 3 * runs + run] = NOBODY;  // that of the round before, used again after two more waits
      if (is_step) HISTORY[(size_t)run * count + t] = value_of(top);
    }
    if (!is_step && !begins) continue;
    float sum = 0.0f, most = -INFINITY;
#if HAS_TOL
    for (int e = threadIdx.x; e < own * D; e += THREADS) {
      const int i = e / D, j = e - i * D;
      const float apart = (x[i * STRIDE + j] - shared[j].leader) / (shared[j].high - shared[j].low);
      sum = fmaf(apart, apart, sum);
    }
    for (int i = threadIdx.x; i < own; i += THREADS) most = fmaxf(most, best_value[i]);
    over_the_run(sum, most, SUMS + 2 * run * gridDim.x, arrived, expected);
#endif
    status = ended(rules, value_of(top), most, sqrtf(sum / ((float)N * D)), stale, rule);
    if (!is_step && value_of(top) == INFINITY) status = FAILED;
  }
  for (int e = threadIdx.x; e < own * D; e += THREADS) {
    const int i = e / D;
    const size_t at = first * D + e;
    X[at] = x[i * STRIDE + e - i * D], V[at] = v[e], L[at] = best[e];
  }
  for (int i = threadIdx.x; i < own; i += THREADS)
    F[first + i] = value[i], FL[first + i] = best_value[i], AGE[first + i] = age[i];
  if (threadIdx.x == 0) atomicAdd(NFAILED + run, failures);
  if (blockIdx.x || threadIdx.x) return;
  for (int t = begins ? 0 : nit - NIT[run]; t < count; ++t) HISTORY[(size_t)run * count + t] = value_of(top);
  LEAD[run] = value_of(top), STALE[run] = stale, NIT[run] = nit, STATUS[run] = status, RULE[run] = rule;
  NFEV[run] = min((long long)N * (nit + 1), rules.budget);
}

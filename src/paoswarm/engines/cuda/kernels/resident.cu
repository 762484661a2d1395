// Many small swarms: one thread per particle, one or more runs per block. Swarms stay in registers for all generations
// of a call.
//
// Defined before: PACK (runs of a block), BLOCKS (that a multiprocessor must hold), MAY_END (whether rules end runs
// early) and IN_SHARED (1: bests are kept in shared memory, 2: velocities too, which leaves registers for more threads).

// The squared distance of a particle from the leader, in widths of the bounds.
__device__ __forceinline__ float squared_distance(const float *x, const Shared *shared) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < D; ++j) {
    const float apart = (x[j] - shared[j].leader) / (shared[j].high - shared[j].low);
    sum = fmaf(apart, apart, sum);
  }
  return sum;
}

#if HAS_TOL
// The sum of one number and the largest of another over the particles of each run; a warp adds up a run, in an order
// that does not depend on the other runs of the block.
__device__ void of_each_run(bool is_one, float &sum, float &most) {
  __shared__ float parts[2][PACK * N], totals[2][PACK];
  if (is_one) parts[0][threadIdx.x] = sum, parts[1][threadIdx.x] = most;
  __syncthreads();
  for (int r = threadIdx.x / 32; r < PACK; r += THREADS / 32) {
    float total = 0.0f, highest = -INFINITY;
    for (int p = threadIdx.x % 32; p < N; p += 32) {
      total += parts[0][r * N + p];
      highest = fmaxf(highest, parts[1][r * N + p]);
    }
    for (int reach = 16; reach; reach >>= 1) {
      total += __shfl_xor_sync(0xFFFFFFFFu, total, reach);
      highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFFu, highest, reach));
    }
    if (threadIdx.x % 32 == 0) totals[0][r] = total, totals[1][r] = highest;
  }
  __syncthreads();
  const int mine = is_one ? threadIdx.x / N : 0;
  sum = totals[0][mine], most = totals[1][mine];
}
#endif

#if IN_SHARED > 0
#define best(j) kept[(j) * THREADS + threadIdx.x]
#else
#define best(j) own_best[j]
#endif
#if IN_SHARED > 1
#define v(j) kept[(D + (j)) * THREADS + threadIdx.x]
#else
#define v(j) own_v[j]
#endif

// Begin (if asked), then as many generations as asked. State is (runs, N, D) and (runs, N). A block has PACK runs, so
// that few lanes of its warps are idle. A thread knows what its own run knows.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
resident(float *X, float *V, float *L, float *F, float *FL, float *AGE, float *LEAD, int *STALE, int *NIT,
         long long *NFEV, int *NFAILED, int *STATUS, int *RULE, float *HISTORY, const u32 *KEYS, const float *TABLE,
         int length, const float *LOWER, const float *UPPER, int runs, int begins, int half, int count, RULES) {
  READ_RULES;
  extern __shared__ float kept[];
  __shared__ Shared all_shared[PACK][D];
  __shared__ u64 challenger[3][PACK];  // a better best than the leader's, if there is one
  __shared__ int failures[PACK];
  const int r = PACK == 1 ? 0 : min(threadIdx.x / N, PACK - 1), p = threadIdx.x - r * N, run = blockIdx.x * PACK + r;
  const bool is_one = p < N && run < runs, is_first = is_one && p == 0;
  const int known = is_one ? run : 0;
  const u32 k0 = KEYS[2 * known], k1 = KEYS[2 * known + 1];
  Shared *shared = all_shared[r];
  for (int e = threadIdx.x; e < PACK * D; e += THREADS)
    all_shared[e / D][e % D].low = LOWER[e % D], all_shared[e / D][e % D].high = UPPER[e % D];
  if (threadIdx.x < PACK) {
    for (int i = 0; i < 3; ++i) challenger[i][threadIdx.x] = NOBODY;
    failures[threadIdx.x] = 0;
  }
  __syncthreads();
  float x[D], value, best_value, age;
  float own_best[D], own_v[D];  // unless they are in shared memory
  const size_t mine = is_one ? (size_t)run * N + p : 0, base = mine * D;
  if (begins) {
#pragma unroll
    for (int j = 0; j < D; ++j) {
      x[j] = best(j) = begins == 2 ? X[base + j]
                                   : first_place(is_one ? p : 0, j, KEYS + 2 * known, LOWER[j], UPPER[j], half);
      v(j) = 0.0f;
    }
    value = measured(x);
    best_value = isnan(value) ? INFINITY : value;
    age = 0.0f;
    if (is_one && isnan(value)) atomicAdd(&failures[r], 1);
  } else {
#pragma unroll
    for (int j = 0; j < D; ++j) x[j] = X[base + j], v(j) = V[base + j], best(j) = L[base + j];
    value = F[mine], best_value = FL[mine], age = AGE[mine];
  }
  if (is_one) atomicMin(&challenger[2][r], rank_of(best_value, p));
  __syncthreads();
  u64 top = challenger[2][r];
  if (is_one && p == (u32)top) {
#pragma unroll
    for (int j = 0; j < D; ++j) shared[j].leader = best(j);
  }
  __syncthreads();
  if (threadIdx.x < PACK) challenger[2][threadIdx.x] = NOBODY;
  int stale = begins ? 0 : STALE[known], nit = begins ? 0 : NIT[known], status = begins ? RUNNING : STATUS[known];
  int rule = begins ? 0 : RULE[known];
  if (begins) {
    float sum = 0.0f, most = best_value;
#if HAS_TOL
    sum = squared_distance(x, shared);
    of_each_run(is_one, sum, most);
#endif
    status = ended(rules, value_of(top), most, sqrtf(sum / (N * D)), 0, rule);
    if (value_of(top) == INFINITY) status = FAILED;
  }
  // The last generation may move only some of the particles.
  const int last = (int)min((rules.budget - 1) / N, 2147483647ll);
  const int in_last = (int)min(rules.budget - (long long)N * last, (long long)N);
  int t = 0, buffer = 0;
  Row row = read_row(TABLE, length, nit + 1);
  bool goes_on = is_one && status == RUNNING && nit < last;
  for (; t < count; ++t) {
    const int generation = nit + 1;
    if (length > 1) row = read_row(TABLE, length, generation);
    const u32 key = hashed(k1 + hashed(generation));
    if (goes_on && (generation < last || p < in_last)) {
#pragma unroll
      for (int j = 0; j < D; ++j) {
        float speed = v(j);
        step(x[j], speed, best(j), shared[j], row, p * D + j, k0, key);
        v(j) = speed;
      }
      value = measured(x);
      if (isnan(value)) atomicAdd(&failures[r], 1);
      age += 1.0f;
      if (value < best_value) {
        best_value = value;
        age = 0.0f;
#pragma unroll
        for (int j = 0; j < D; ++j) best(j) = x[j];
        const u64 rank = rank_of(value, p);
        if (rank < top) atomicMin(&challenger[buffer][r], rank);
      }
    }
#if MAY_END
    if (!__syncthreads_or(goes_on)) break;
#else
    __syncthreads();
#endif
    bool has_changed = false;  // the same for all threads of the block
#pragma unroll
    for (int i = 0; i < PACK; ++i) has_changed |= challenger[buffer][i] != NOBODY;
    stale += goes_on;
    if (has_changed) {
      const u64 winner = challenger[buffer][r];
      if (winner < top) {
        if (winner >> 32 < top >> 32) stale = 0;
        top = winner;
        if (is_one && p == (u32)winner) {
#pragma unroll
          for (int j = 0; j < D; ++j) shared[j].leader = best(j);
        }
      }
      __syncthreads();
    }
    if (threadIdx.x < PACK) challenger[buffer ? buffer - 1 : 2][threadIdx.x] = NOBODY;  // used after two more barriers
    buffer = buffer == 2 ? 0 : buffer + 1;
    if (is_first) HISTORY[(size_t)run * count + t] = value_of(top);
    nit += goes_on;
#if MAY_END
    float sum = 0.0f, most = best_value;
#if HAS_TOL
    sum = squared_distance(x, shared);
    of_each_run(is_one, sum, most);
#endif
    if (goes_on) status = ended(rules, value_of(top), most, sqrtf(sum / (N * D)), stale, rule);
#endif
    goes_on = goes_on && status == RUNNING && nit < last;
  }
  if (!is_one) return;
  for (int rest = t + p; rest < count; rest += N) HISTORY[(size_t)run * count + rest] = value_of(top);
#pragma unroll
  for (int j = 0; j < D; ++j) X[base + j] = x[j], V[base + j] = v(j), L[base + j] = best(j);
  F[mine] = value, FL[mine] = best_value, AGE[mine] = age;
  if (is_first) {
    LEAD[run] = value_of(top), STALE[run] = stale, NIT[run] = nit;
    NFEV[run] = min((long long)N * (nit + 1), rules.budget);
    NFAILED[run] = (begins ? 0 : NFAILED[run]) + failures[r], STATUS[run] = status, RULE[run] = rule;
  }
}

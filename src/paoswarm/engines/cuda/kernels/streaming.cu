// A large swarm, which stays in memory. A block moves PARTICLES of them, element by element, so that neighbouring
// threads read neighbouring numbers; then a thread per particle evaluates the objective from shared memory; then the
// bests that improved are written. One launch each per generation: move, spread (if runs can converge), settle.
//
// Defined before: PARTICLES and WIDE (numbers that are read at once, which divides D); before common.cu RARE_BOUNCES.

#define STRIDE (D | 1)  // an odd stride: threads that read the same unknown of different particles do not collide

// State is (runs, N, D) and (runs, N); TOP (runs,) is the rank of the leader, G (runs, D) its place.

struct __align__(4 * WIDE) Numbers { float of[WIDE]; };

__device__ __forceinline__ Numbers read(const float *at) { return *(const Numbers *)at; }
__device__ __forceinline__ void write(float *at, const Numbers numbers) { *(Numbers *)at = numbers; }

// Evaluate particles whose places are in shared memory, one thread each; tell which have improved.
__device__ __forceinline__ void evaluate(const float *places, int count, size_t first, u32 number, int begins,
                                         float *F, float *FL, float *AGE, u64 top, u64 *NEXT, int *NFAILED,
                                         bool *improved) {
  __shared__ u64 ranks[32];
  u64 rank = NOBODY;
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const float value = measured(places + i * STRIDE);
    const size_t mine = first + i;
    F[mine] = value;
    if (isnan(value)) atomicAdd(NFAILED, 1);
    const float known = begins ? INFINITY : FL[mine];
    improved[i] = value < known;
    if (begins || improved[i]) FL[mine] = improved[i] ? value : INFINITY;
    AGE[mine] = begins || improved[i] ? 0.0f : AGE[mine] + 1.0f;
    if (begins || improved[i]) rank = min(rank, rank_of(improved[i] ? value : INFINITY, number + i));
  }
  if (rank >= top) rank = NOBODY;
  for (int reach = 16; reach; reach >>= 1) rank = min(rank, __shfl_xor_sync(0xFFFFFFFFu, rank, reach));
  if (threadIdx.x % 32 == 0) ranks[threadIdx.x / 32] = rank;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < THREADS / 32; ++i) rank = min(rank, ranks[i]);
    if (rank != NOBODY) atomicMin(NEXT, rank);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
begin(float *X, float *V, float *L, float *F, float *FL, float *AGE, u64 *NEXT, int *NFAILED, const u32 *KEYS,
      const float *LOWER, const float *UPPER, int is_given, int half) {
  extern __shared__ float places[];
  __shared__ bool improved[PARTICLES];
  const int run = blockIdx.y, p0 = blockIdx.x * PARTICLES, count = min(PARTICLES, N - p0);
  const size_t first = (size_t)run * N + p0;
  for (int e = threadIdx.x; e < count * D; e += THREADS) {
    const int i = e / D, j = e % D;
    const size_t at = first * D + e;
    const float x = is_given ? X[at] : first_place(p0 + i, j, KEYS + 2 * run, LOWER[j], UPPER[j], half);
    X[at] = x, L[at] = x, V[at] = 0.0f;
    places[i * STRIDE + j] = x;
  }
  __syncthreads();
  evaluate(places, count, first, p0, 1, F, FL, AGE, NOBODY, NEXT + run, NFAILED + run, improved);
}

extern "C" __global__ void __launch_bounds__(THREADS)
move(float *__restrict__ X, float *__restrict__ V, float *__restrict__ L, float *__restrict__ F,
     float *__restrict__ FL, float *__restrict__ AGE, const u64 *__restrict__ TOP, u64 *__restrict__ NEXT,
     const float *__restrict__ G, const int *__restrict__ NIT, const long long *__restrict__ NFEV,
     int *__restrict__ NFAILED, const int *__restrict__ STATUS, const u32 *__restrict__ KEYS,
     const float *__restrict__ TABLE, int length, const float *__restrict__ LOWER, const float *__restrict__ UPPER,
     long long budget) {
  extern __shared__ float places[];
  __shared__ Shared shared[D];
  __shared__ bool improved[PARTICLES];
  const int run = blockIdx.y, p0 = blockIdx.x * PARTICLES;
  const int count = (int)min((long long)min(PARTICLES, N - p0), budget - NFEV[run] - p0);
  if (STATUS[run] != RUNNING || count <= 0) return;
  for (int j = threadIdx.x; j < D; j += THREADS) shared[j] = {G[run * D + j], LOWER[j], UPPER[j], 0.0f};
  __syncthreads();
  const int generation = NIT[run] + 1;
  const u32 k0 = KEYS[2 * run], key = hashed(KEYS[2 * run + 1] + hashed(generation));
  const Row row = read_row(TABLE, length, generation);
  const size_t first = (size_t)run * N + p0;
#pragma unroll 4
  for (int e = WIDE * threadIdx.x; e < count * D; e += WIDE * THREADS) {
    const size_t at = first * D + e;
    Numbers x = read(X + at), v = read(V + at);
    const Numbers best = read(L + at);
    const int particle = e / D, unknown = e - particle * D;  // WIDE divides D
#pragma unroll
    for (int i = 0; i < WIDE; ++i) {
      step(x.of[i], v.of[i], best.of[i], shared[unknown + i], row, (u32)p0 * D + e + i, k0, key);
      places[particle * STRIDE + unknown + i] = x.of[i];
    }
    write(X + at, x), write(V + at, v);
  }
  __syncthreads();
  evaluate(places, count, first, p0, 0, F, FL, AGE, TOP[run], NEXT + run, NFAILED + run, improved);
  for (int e = WIDE * threadIdx.x; e < count * D; e += WIDE * THREADS) {
    const int i = e / D, j = e % D;
    if (!improved[i]) continue;
    Numbers x;
#pragma unroll
    for (int k = 0; k < WIDE; ++k) x.of[k] = places[i * STRIDE + j + k];
    write(L + first * D + e, x);
  }
}

#if HAS_TOL
// The sum of one number and the largest of another over the threads of a block, known to all of them.
__device__ void sum_and_most(float &sum, float &most) {
  __shared__ float sums[32], mosts[32];
  for (int reach = 16; reach; reach >>= 1) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, reach);
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, reach));
  }
  const int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
  if (threadIdx.x % 32 == 0) sums[warp] = sum, mosts[warp] = most;
  __syncthreads();
  sum = 0.0f;
  most = -INFINITY;
  for (int i = 0; i < warps; ++i) sum += sums[i], most = fmaxf(most, mosts[i]);
  __syncthreads();
}

// The sum of squared distances from the leader, in widths of the bounds, and the highest best value.
extern "C" __global__ void __launch_bounds__(THREADS)
spread(const float *X, const float *FL, const float *G, const int *STATUS, const float *LOWER, const float *UPPER,
       float *SUM, u32 *MOST) {
  const int run = blockIdx.y, p0 = blockIdx.x * PARTICLES, count = min(PARTICLES, N - p0);
  if (STATUS[run] != RUNNING) return;
  const size_t first = (size_t)run * N + p0;
  float sum = 0.0f, most = -INFINITY;
  for (int e = threadIdx.x; e < count * D; e += THREADS) {
    const int j = e % D;
    const float apart = (X[first * D + e] - G[run * D + j]) / (UPPER[j] - LOWER[j]);
    sum = fmaf(apart, apart, sum);
  }
  for (int i = threadIdx.x; i < count; i += THREADS) most = fmaxf(most, FL[first + i]);
  sum_and_most(sum, most);
  if (threadIdx.x == 0) {
    atomicAdd(SUM + run, sum);
    atomicMax(MOST + run, (u32)(rank_of(most, 0) >> 32));
  }
}
#endif

// After a generation, one block per run: the leader (part 1), counts and ends (part 2).
extern "C" __global__ void settle(const float *L, u64 *TOP, u64 *NEXT, float *G, float *LEAD, int *STALE, int *NIT,
                                  long long *NFEV, int *STATUS, int *RULE, float *HISTORY, int *COLUMN, int columns,
                                  float *SUM, u32 *MOST, int begins, int parts, RULES) {
  READ_RULES;
  const int run = blockIdx.x;
  const bool goes_on = begins || (STATUS[run] == RUNNING && NFEV[run] < rules.budget);
  const u64 next = NEXT[run], top = TOP[run];
  if (parts & 1 && goes_on && next < top)
    for (int j = threadIdx.x; j < D; j += blockDim.x) G[run * D + j] = L[((size_t)run * N + (u32)next) * D + j];
  __syncthreads();
  if (!(parts & 2) || threadIdx.x) return;
  if (goes_on) {
    int stale = begins ? 0 : STALE[run] + 1, rule = 0;
    if (next < top) {
      if (next >> 32 < top >> 32) stale = 0;
      TOP[run] = next;
      LEAD[run] = value_of(next);
    }
    NIT[run] = begins ? 0 : NIT[run] + 1;
    NFEV[run] = begins ? N : NFEV[run] + min((long long)N, rules.budget - NFEV[run]);
    STALE[run] = stale;
    float spread = 0.0f, highest = 0.0f;
#if HAS_TOL
    spread = sqrtf(SUM[run] / ((float)N * D));
    highest = value_of((u64)MOST[run] << 32);
    SUM[run] = 0.0f, MOST[run] = 0u;
#endif
    int status = ended(rules, LEAD[run], highest, spread, stale, rule);
    if (begins && LEAD[run] == INFINITY) status = FAILED;
    STATUS[run] = status, RULE[run] = rule;
  }
  NEXT[run] = NOBODY;
  if (!begins) {
    HISTORY[(size_t)run * columns + COLUMN[run]] = LEAD[run];
    COLUMN[run] += 1;
  }
}

// Swarms of the default kind on a CUDA device: pulled by local and global best, shaken by their distance, clipped.
//
// resident: one thread per particle, one or more runs per block. Swarms stay in registers for all generations of a call.
// move, spread, settle: a large swarm stays in memory. A block moves PARTICLES of them, element by element, so that
//   neighbouring threads read neighbouring numbers; then a thread per particle evaluates the objective from shared
//   memory; then the bests that improved are written. One launch each per generation.
//
// Defined before this text: D (unknowns), N (particles), THREADS (of a block), HAS_TOL, and objective(x); for small
// swarms PACK (runs of a block), BLOCKS (that a multiprocessor must hold), MAY_END (whether rules end runs early) and
// IN_SHARED (1: bests are kept in shared memory, 2: velocities too, which leaves registers for more threads); for large
// ones PARTICLES and WIDE (numbers that are read at once, which divides D).
// Random numbers: paoswarm/compiled/counter.py, equations (E1) to (E3). Codes: paoswarm/compiled/program.py.

typedef unsigned int u32;
typedef unsigned long long u64;

#define RUNNING 0
#define TARGET 1
#define CONVERGED 2
#define STAGNATED 3
#define FAILED (-4)
#define BY_SPREAD 1
#define BY_VALUES 2
#define BY_PATIENCE 3
#ifndef UNROLL
#define UNROLL 4
#endif
#define NOBODY (~0ull)
#define RESTITUTION 0.1f

struct Rules {
  float target, tol, near, same;
  int patience, stagnation;
  long long budget;
};
#define RULES float target, float tol, float near, float same, int patience, int stagnation, long long budget
#define READ_RULES const Rules rules = {target, tol, near, same, patience, stagnation, budget}

struct Row { float w0, w1, a11, a12, a21, a22, h11, h21, h22; };

__device__ __forceinline__ Row read_row(const float *table, int length, int generation) {
  const float *at = table + 9 * (min(generation, length) - 1);
  return Row{at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]};
}

__device__ __forceinline__ u32 hashed(u32 word) {
  word = (word ^ (word >> 16)) * 0x85EBCA6Bu;
  word = (word ^ (word >> 13)) * 0xC2B2AE35u;
  return word ^ (word >> 16);
}

__device__ __forceinline__ void philox(u32 &low, u32 &high, u32 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 product = (u64)0xD256D193u * low;
    low = (u32)(product >> 32) ^ key ^ high;
    high = (u32)product;
    key += 0x9E3779B9u;
  }
}

// Two deviates, times a scale (E2).
__device__ __forceinline__ void normals(u32 element, u32 k0, u32 key, float scale, float &n1, float &n2) {
  u32 a = element, b = k0;
  philox(a, b, key);
  const float u = fmaf(__uint2float_rn(a >> 1), 4.656612873077393e-10f, 2.3283064365386963e-10f);
  const float radius = scale * sqrtf(fabsf(1.3862943611198906f * __log2f(u)));  // ln u may be positive by rounding
  float sine, cosine;
  __sincosf(__int2float_rn((int)b) * 1.4629180792671596e-9f, &sine, &cosine);  // 2 pi 2^-32; between -pi and pi
  n1 = radius * cosine;
  n2 = radius * sine;
}

// What particles share of an unknown; read at once.
struct __align__(16) Shared { float leader, low, high, unused; };

// One element by one exact step, equation (12), and the wall. The weights of the two attractors add up to one.
__device__ __forceinline__ void step(float &x, float &v, float best, const Shared at, const Row &row, u32 element,
                                     u32 k0, u32 key) {
  float n1, n2;
  const float apart = best - at.leader;
  normals(element, k0, key, fabsf(apart), n1, n2);
  const float centre = fmaf(row.w0, apart, at.leader), y = x - centre;
  const float free = fmaf(row.a11, y, fmaf(row.a12, v, fmaf(row.h11, n1, centre)));
  const float speed = fmaf(row.a21, y, fmaf(row.a22, v, fmaf(row.h21, n1, row.h22 * n2)));
  x = fminf(fmaxf(free, at.low), at.high);
  v = speed;
#ifdef STREAMING  // a jump over rare work saves registers, which matter more there
  if (free == x) return;
#endif
  if ((free - x) * speed > 0.0f) v = -RESTITUTION * speed;
}

// Where particle p begins along unknown j: a Latin hypercube (E3).
__device__ __forceinline__ float first_place(int p, int j, const u32 *key, float low, float high, int half) {
  const u32 mask = (1u << half) - 1u;
  u32 a = j, b = key[0], place = p * D + j, unused = key[0];
  philox(a, b, hashed(key[1] + hashed(0xFFFFFFFFu)));
  philox(place, unused, hashed(key[1] + hashed(0u)));
  u32 number = p;
  do {
    u32 x = number >> half, y = number & mask;
#pragma unroll
    for (u32 c = 0; c < 8; ++c) {
      const u32 mixed = x ^ (hashed(y + a + c * b) & mask);
      x = y;
      y = mixed;
    }
    number = (x << half) | y;
  } while (number >= N);
  const float share = (__uint2float_rn(number) + __uint2float_rn(place) * 2.3283064365386963e-10f) / (float)N;
  return fminf(fmaf(high - low, share, low), high);
}

__device__ __forceinline__ float measured(const float *x) {
  const float value = objective(x);
  return value == -INFINITY ? NAN : value;
}

// Order of values as whole numbers, with the number of the particle behind: of equals the first is the best.
__device__ __forceinline__ u64 rank_of(float value, u32 particle) {
  const u32 bits = __float_as_uint(value);
  return ((u64)(bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u)) << 32) | particle;
}

__device__ __forceinline__ float value_of(u64 rank) {
  const u32 bits = (u32)(rank >> 32);
  return __uint_as_float(bits ^ (bits >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}

// What has ended a run; the first reason that holds counts.
__device__ __forceinline__ int ended(const Rules &rules, float lowest, float highest, float spread, int stale,
                                     int &rule) {
  rule = 0;
#if HAS_TOL
  if (stale >= rules.patience) rule = BY_PATIENCE;
  if (spread < rules.near && highest - lowest <= rules.same * fabsf(lowest)) rule = BY_VALUES;
  if (spread < rules.tol) rule = BY_SPREAD;
#endif
  if (lowest <= rules.target) return TARGET;
  if (rule) return CONVERGED;
  return rules.stagnation && stale >= rules.stagnation ? STAGNATED : RUNNING;
}

#ifdef RESIDENT
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
#endif

#ifdef STREAMING
// State is (runs, N, D) and (runs, N); TOP (runs,) is the rank of the leader, G (runs, D) its place.
#define STRIDE (D | 1)  // an odd stride: threads that read the same unknown of different particles do not collide

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
#pragma unroll UNROLL
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
#endif

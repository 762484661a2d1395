// Swarms of the default kind on a CUDA device: pulled by local and global best, shaken by their distance, clipped.
//
// This text comes first in every program: random numbers (paoswarm/engines/counter.py, equations (E1) to (E3)), one
// step of an element, and what ends a run (codes: paoswarm/engines/program.py). One of the other files follows, see
// paoswarm/engines/cuda/plan.py for which.
//
// Defined before: D (unknowns), N (particles), THREADS (of a block), HAS_TOL (whether runs can converge) and
// objective(x).

typedef unsigned int u32;
typedef unsigned long long u64;

#define RUNNING 0
#define TARGET 1
#define CONVERGED 2
#define FAILED (-4)
#define BY_SPREAD 1
#define BY_VALUES 2
#define BY_PATIENCE 3
#define NOBODY (~0ull)
#define RESTITUTION 0.1f

struct Rules {
  float target, tol, near, same;
  int patience;
  long long budget;
};
#define RULES float target, float tol, float near, float same, int patience, long long budget
#define READ_RULES const Rules rules = {target, tol, near, same, patience, budget}

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
#ifdef RARE_BOUNCES  // a jump over rare work saves registers, which matter more there
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
  return rule ? CONVERGED : RUNNING;
}

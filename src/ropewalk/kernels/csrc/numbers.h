// Numbers of every dtype as the float32 (float64) in which rows are computed. Each rounds as torch does, so that
// a row computed here is the row that torch's own operators compute. Loops over these vectorise: no branch, no call.
#pragma once

#include <cstdint>
#include <cstring>

#define ROPEWALK_INLINE inline __attribute__((always_inline))

// A function compiled for three generations of processors, of which the loader takes the newest that is there.
#if defined(__x86_64__) && !defined(__clang__)
#define ROPEWALK_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ROPEWALK_CLONES
#endif

namespace ropewalk {

ROPEWALK_INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

ROPEWALK_INLINE float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

struct Float32 {
  using Stored = float;
  using Computed = float;
  static ROPEWALK_INLINE float load(float x) { return x; }
  static ROPEWALK_INLINE float store(float x) { return x; }
};

struct Float64 {
  using Stored = double;
  using Computed = double;
  static ROPEWALK_INLINE double load(double x) { return x; }
  static ROPEWALK_INLINE double store(double x) { return x; }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Computed = float;
  static ROPEWALK_INLINE float load(uint16_t x) { return float_of(static_cast<uint32_t>(x) << 16); }
  static ROPEWALK_INLINE uint16_t store(float x) {  // to the nearest, ties to even
    const uint32_t bits = bits_of(x);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>(x != x ? 0x7fc0u : rounded);
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Computed = float;
  static ROPEWALK_INLINE float load(uint16_t x) {
    const uint32_t shifted = static_cast<uint32_t>(x & 0x7fffu) << 13;
    const uint32_t normal = shifted + 0x38000000u;  // the exponent's bias
    // Added to 2^-14 and taken from it again: no float32 on the way is subnormal, which a program may have flushed to 0.
    const uint32_t subnormal = bits_of(float_of(shifted + 0x38800000u) - float_of(0x38800000u));
    const uint32_t finite = shifted < 0x00800000u ? subnormal : normal;
    const uint32_t special = shifted | 0x7f800000u;
    const uint32_t sign = static_cast<uint32_t>(x & 0x8000u) << 16;
    return float_of((shifted >= 0x0f800000u ? special : finite) | sign);
  }
  static ROPEWALK_INLINE uint16_t store(float x) {  // to the nearest, ties to even
    const uint32_t sign = bits_of(x) & 0x80000000u, size = bits_of(x) ^ sign;
    const uint32_t normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    const uint32_t subnormal = bits_of(float_of(size) + 0.5f) - 0x3f000000u;  // the sum rounds at 2^-24
    const uint32_t finite = size < 0x38800000u ? subnormal : normal;
    const uint32_t special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return static_cast<uint16_t>((size >= 0x47800000u ? special : finite) | (sign >> 16));
  }
};

}  // namespace ropewalk

// The tables of a rotation: cos and sin of position x inverse frequency, in float64, rounded once to float32.
//
// Reduction by pi / 2 in three parts (Cody and Waite 1980) and the polynomials of fdlibm's kernels (Sun Microsystems
// 1993: k_sin.c, k_cos.c): within 2e-16 of the exact value for angles below 2^24 pi / 2, past position 16,000,000.
#include "numbers.h"
#include "torch_shim.h"

#include <algorithm>
#include <cmath>

namespace ropewalk {

constexpr double kQuarterTurns = 0.63661977236758134308;  // 2 / pi
// pi / 2 in 29 + 29 + 53 bits: a count of quarter turns below 2^24 times either of the first two is exact
constexpr double kHalfPi1 = 0x1.921fb54p+0, kHalfPi2 = 0x1.10b4610p-30, kHalfPi3 = 0x1.a62633145c06ep-58;
constexpr double kLargest = 2.6e7;              // an angle whose quarter turns are below 2^24
constexpr double kRounder = 6755399441055744.0;  // 1.5 x 2^52: what is added to it is rounded to an integer
constexpr int64_t kTokens = 64;                 // tokens that are worth a thread

// cos and sin of one angle; no branch, so that a loop over it vectorises.
ROPEWALK_INLINE void cos_sin(double angle, double factor, float* cos, float* sin) {
  const double shifted = angle * kQuarterTurns + kRounder, turns = shifted - kRounder;
  int64_t quarter;
  std::memcpy(&quarter, &shifted, sizeof quarter);
  const double x = ((angle - turns * kHalfPi1) - turns * kHalfPi2) - turns * kHalfPi3, z = x * x;
  const double s = x + x * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 +
      z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 +
      z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
  const double c = (1.0 - 0.5 * z) + z * z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 +
      z * (2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 +
      z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;
  *cos = static_cast<float>(((quarter + 1) & 2 ? -first : first) * factor);
  *sin = static_cast<float>((quarter & 2 ? -second : second) * factor);
}

ROPEWALK_CLONES void row(double position, const double* inv_freq, int64_t pairs, double factor, float* cos, float* sin) {
#pragma GCC ivdep
  for (int64_t i = 0; i < pairs; ++i) cos_sin(position * inv_freq[i], factor, cos + i, sin + i);
}

// Where angles are too large for the reduction above: the C library's own, which is slow and right.
void far_row(double position, const double* inv_freq, int64_t pairs, double factor, float* cos, float* sin) {
  for (int64_t i = 0; i < pairs; ++i) {
    const double angle = position * inv_freq[i];
    cos[i] = static_cast<float>(std::cos(angle) * factor);
    sin[i] = static_cast<float>(std::sin(angle) * factor);
  }
}

struct TableWork {
  const int64_t* positions;
  const double* inv_freq;
  float *cos, *sin;
  int64_t pairs;
  double factor, fastest;

  void run(int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; ++t) {
      const double position = static_cast<double>(positions[t]);
      const bool near = std::abs(position) * fastest < kLargest;
      (near ? row : far_row)(position, inv_freq, pairs, factor, cos + t * pairs, sin + t * pairs);
    }
  }
};

// tables(Tensor positions, Tensor inv_freq, float factor) -> (Tensor cos, Tensor sin)
void tables(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor positions(stack[0]), inv_freq(stack[1]);
  require(positions.dtype() == aoti_torch_dtype_int64() && inv_freq.dtype() == aoti_torch_dtype_float64(),
          "ropewalk::tables: positions have to be int64, inv_freq float64");
  require(positions.dims() <= 7 && inv_freq.dims() == 1 && inv_freq.size(0) >= 1,
          "ropewalk::tables: inv_freq has to be [pairs]");
  require(positions.dense() && inv_freq.dense(), "ropewalk::tables: positions and inv_freq have to be contiguous");
  int64_t sizes[8], strides[8], tokens = 1, step = inv_freq.size(0);
  for (int64_t axis = 0; axis < positions.dims(); ++axis) tokens *= sizes[axis] = positions.size(axis);
  sizes[positions.dims()] = inv_freq.size(0), strides[positions.dims()] = 1;
  for (int64_t axis = positions.dims() - 1; axis >= 0; --axis) strides[axis] = step, step *= std::max(sizes[axis], int64_t{1});
  Tensor cos = Tensor::empty(positions.dims() + 1, sizes, strides, aoti_torch_dtype_float32());
  Tensor sin = Tensor::empty(positions.dims() + 1, sizes, strides, aoti_torch_dtype_float32());
  TableWork work{};
  work.positions = positions.data<int64_t>(), work.inv_freq = inv_freq.data<double>();
  work.cos = cos.data<float>(), work.sin = sin.data<float>(), work.pairs = inv_freq.size(0);
  std::memcpy(&work.factor, &stack[2], sizeof work.factor);
  for (int64_t i = 0; i < work.pairs; ++i) work.fastest = std::max(work.fastest, std::abs(work.inv_freq[i]));
  if (tokens <= kTokens)
    work.run(0, tokens);
  else
    check(torch_parallel_for(
        0, tokens, kTokens,
        [](int64_t begin, int64_t end, void* context) { static_cast<TableWork*>(context)->run(begin, end); }, &work));
  stack[0] = cos.release();
  stack[1] = sin.release();
}

const bool tables_registered = registered([] {
  const Library library;
  library.add("tables", "(Tensor positions, Tensor inv_freq, float factor) -> (Tensor, Tensor)", &tables);
});

}  // namespace ropewalk

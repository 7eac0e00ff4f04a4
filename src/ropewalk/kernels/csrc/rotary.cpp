// The rotation of queries and keys on the CPU: (a, b) -> (a cos - b sin, b cos + a sin), both tensors in one call.
//
// Every element is read once and written once, which is the limit: a copy.
#include "numbers.h"
#include "torch_shim.h"

#include <algorithm>
#include <optional>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ropewalk {

constexpr int64_t kWidest = 1024;       // features of a head that a row's buffer holds
constexpr int64_t kTokens = 2048;       // of one head in a row, so that memory is walked in long steps
constexpr int64_t kAhead = 4096;        // bytes by which reading is announced to the memory
constexpr int64_t kParallel = 1 << 15;  // elements that are worth a thread
constexpr int64_t kStreamed = 1 << 24;  // bytes written from which the caches could not hold them anyway

// A run of rows that one table, or a row of it each, turns: `width` features, of which 2 x `pairs` from `first` on.
struct Rows {
  const char* x;
  char* y;
  const float* cos;
  const float* sin;
  int64_t count, width, first, pairs;
  int64_t reach;  // rows that lie one behind the other from here on, those of the runs that follow among them
  int64_t x_step, x_feature, y_step, y_feature, cos_step, cos_pair, sin_step, sin_pair;
  float direction;  // of the turn: 1, or -1 for the transpose
  bool stream;
};

// Past the caches: what is written here is not read again soon, and what it would push out may be.
ROPEWALK_INLINE void stream([[maybe_unused]] void* to, [[maybe_unused]] const void* from, [[maybe_unused]] int64_t bytes) {
#if defined(__x86_64__)
  for (int64_t at = 0; at < bytes; at += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + at),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + at)));
#else
  std::memcpy(to, from, bytes);
#endif
}

// A row that will be read, and written, soon.
ROPEWALK_INLINE void announce(const void* x, const void* y, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(static_cast<const char*>(x) + at, 0);
    if (y != nullptr) __builtin_prefetch(static_cast<const char*>(y) + at, 1);
  }
}

// in and out are one row or two that have nothing in common: an element is read before it is written.
template <typename Number, bool interleaved>
ROPEWALK_INLINE void turn(const typename Number::Stored* in, typename Number::Stored* out, const float* cos,
                          const float* sin, int64_t pairs, float direction) {
  using Computed = typename Number::Computed;
#pragma GCC ivdep
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t one = interleaved ? 2 * i : i, other = interleaved ? 2 * i + 1 : i + pairs;
    const Computed a = Number::load(in[one]), b = Number::load(in[other]);
    const Computed c = cos[i], s = direction * sin[i];
    out[one] = Number::store(a * c - b * s);
    out[other] = Number::store(b * c + a * s);
  }
}

// A row whose features lie side by side, straight to where it goes or by way of the cache.
template <typename Number, bool interleaved>
ROPEWALK_INLINE void turn_plain(const Rows& rows, int64_t pairs) {
  using Stored = typename Number::Stored;
  alignas(64) Stored held[kWidest];
  const int64_t end = rows.first + 2 * pairs, bytes = rows.width * static_cast<int64_t>(sizeof(Stored));
  const int64_t ahead = std::max(int64_t{1}, kAhead / bytes);
  for (int64_t n = 0; n < rows.count; ++n) {
    const Stored* x = reinterpret_cast<const Stored*>(rows.x) + n * rows.x_step;
    Stored* y = reinterpret_cast<Stored*>(rows.y) + n * rows.y_step;
    Stored* out = rows.stream ? held : y;
    if (n + ahead < rows.reach) announce(x + ahead * rows.x_step, rows.stream ? nullptr : y + ahead * rows.y_step, bytes);
    turn<Number, interleaved>(x + rows.first, out + rows.first, rows.cos + n * rows.cos_step,
                              rows.sin + n * rows.sin_step, pairs, rows.direction);
    if (rows.width > 2 * pairs && x != out) {
      std::copy(x, x + rows.first, out);
      std::copy(x + end, x + rows.width, out + end);
    }
    if (rows.stream) stream(y, held, bytes);
  }
}

// A row whose features, or whose table, lie apart: gathered, turned and scattered.
template <typename Number, bool interleaved>
ROPEWALK_INLINE void turn_apart(const Rows& rows) {
  using Stored = typename Number::Stored;
  Stored held[kWidest];
  float cos[kWidest / 2], sin[kWidest / 2];
  for (int64_t n = 0; n < rows.count; ++n) {
    const Stored* x = reinterpret_cast<const Stored*>(rows.x) + n * rows.x_step;
    Stored* y = reinterpret_cast<Stored*>(rows.y) + n * rows.y_step;
    for (int64_t i = 0; i < rows.width; ++i) held[i] = x[i * rows.x_feature];
    for (int64_t i = 0; i < rows.pairs; ++i) {
      cos[i] = rows.cos[n * rows.cos_step + i * rows.cos_pair];
      sin[i] = rows.sin[n * rows.sin_step + i * rows.sin_pair];
    }
    turn<Number, interleaved>(held + rows.first, held + rows.first, cos, sin, rows.pairs, rows.direction);
    for (int64_t i = 0; i < rows.width; ++i) y[i * rows.y_feature] = held[i];
  }
}

// The widths of most heads are known to the compiler: no loop has a remainder.
template <typename Number, bool interleaved>
ROPEWALK_INLINE void turn_rows(const Rows& rows) {
  if (rows.x_feature != 1 || rows.y_feature != 1 || rows.cos_pair != 1 || rows.sin_pair != 1)
    turn_apart<Number, interleaved>(rows);
  else if (rows.pairs == 64)
    turn_plain<Number, interleaved>(rows, 64);
  else if (rows.pairs == 32)
    turn_plain<Number, interleaved>(rows, 32);
  else
    turn_plain<Number, interleaved>(rows, rows.pairs);
}

// One function a dtype and layout.
#define ROPEWALK_TURN(NUMBER)                                                                      \
  ROPEWALK_CLONES void turn_half_##NUMBER(const Rows& rows) { turn_rows<NUMBER, false>(rows); }    \
  ROPEWALK_CLONES void turn_interleaved_##NUMBER(const Rows& rows) { turn_rows<NUMBER, true>(rows); }
ROPEWALK_TURN(Float32)
ROPEWALK_TURN(Float64)
ROPEWALK_TURN(BFloat16)
ROPEWALK_TURN(Float16)

using Turn = void (*)(const Rows&);

Turn chosen(int32_t dtype, bool interleaved) {
  if (dtype == aoti_torch_dtype_float32()) return interleaved ? turn_interleaved_Float32 : turn_half_Float32;
  if (dtype == aoti_torch_dtype_bfloat16()) return interleaved ? turn_interleaved_BFloat16 : turn_half_BFloat16;
  if (dtype == aoti_torch_dtype_float16()) return interleaved ? turn_interleaved_Float16 : turn_half_Float16;
  if (dtype == aoti_torch_dtype_float64()) return interleaved ? turn_interleaved_Float64 : turn_half_Float64;
  throw std::runtime_error("ropewalk::rotate: q and k have to be floating-point");
}

int64_t bytes_of(int32_t dtype) {
  if (dtype == aoti_torch_dtype_float64()) return 8;
  return dtype == aoti_torch_dtype_float32() ? 4 : 2;
}

// x [B, H, T, D] to y, by a table [T, P] or [1 or B, T, P].
struct Side {
  const Tensor& x;
  const Tensor& y;
  const Tensor& cos;
  const Tensor& sin;
  int64_t size;

  void check_shapes(int64_t first, int64_t pairs) const {
    require(x.dims() == 4 && y.dims() == 4, "ropewalk::rotate: x has to be [batch, heads, tokens, width]");
    for (int64_t axis = 0; axis < 4; ++axis) require(x.size(axis) == y.size(axis), "ropewalk::rotate: out of another shape");
    require(x.dtype() == y.dtype(), "ropewalk::rotate: out of another dtype");
    require(pairs >= 1 && pairs <= kWidest / 2 && x.size(3) <= kWidest && first >= 0 && first <= x.size(3) - 2 * pairs,
            "ropewalk::rotate: a head too narrow for its pairs, or too wide");
    for (const Tensor* table : {&cos, &sin}) {
      const int64_t dims = table->dims();
      require(table->dtype() == aoti_torch_dtype_float32(), "ropewalk::rotate: tables have to be float32");
      require(dims == 2 || dims == 3, "ropewalk::rotate: tables have to be [tokens, pairs] or [batch, tokens, pairs]");
      require(table->size(dims - 1) == pairs && table->size(dims - 2) == x.size(2), "ropewalk::rotate: a table of another length");
      require(dims == 2 || table->size(0) == 1 || table->size(0) == x.size(0), "ropewalk::rotate: a table for another batch");
    }
  }

  // Whether every row is written past the caches: rows of whole 16-byte units, one behind the other, of numbers wide
  // enough; of 16-bit numbers, and of rows that jump, the detour takes longer than it saves.
  bool streams(int64_t written, bool by_token) const {
    if (written < kStreamed || y.stride(3) != 1 || x.data<char>() == y.data<char>() || size < 4 || by_token) return false;
    for (int64_t axis = 0; axis < 3; ++axis)
      if (y.stride(axis) * size % 16 != 0) return false;
    return x.size(3) * size % 16 == 0 && reinterpret_cast<uintptr_t>(y.data<char>()) % 16 == 0;
  }
};

// What one thread does at a time: all heads of some tokens where a token's heads lie together, some tokens of one head
// where a head's tokens do. Memory is walked in its own order.
struct Units {
  bool by_token;
  int64_t heads, tokens, each, in_row;  // of a row of the batch

  explicit Units(const Tensor& x)
      : by_token(x.size(1) > 1 && (x.size(2) == 1 || x.stride(1) < x.stride(2))), heads(x.size(1)), tokens(x.size(2)),
        each(by_token ? kTokens / 32 : kTokens), in_row((by_token ? 1 : heads) * ((tokens + each - 1) / each)) {}
};

struct Work {
  const Side (&sides)[2];
  Units units[2];
  bool stream[2];
  int64_t batch, first, pairs;
  float direction;
  Turn turn;

  void run(int64_t begin, int64_t end) const {
    int64_t before = 0;
    for (size_t n = 0; n < 2; ++n) {
      const int64_t all = batch * units[n].in_row;
      for (int64_t unit = std::max(begin - before, int64_t{0}); unit < std::min(end - before, all); ++unit)
        one(sides[n], units[n], stream[n], unit / units[n].in_row, unit % units[n].in_row);
      before += all;
    }
#if defined(__x86_64__)
    _mm_sfence();  // what was written past the caches is there for whoever reads it next
#endif
  }

  void one(const Side& side, const Units& unit, bool streamed, int64_t row, int64_t within) const {
    const int64_t chunks = (unit.tokens + unit.each - 1) / unit.each;
    const int64_t begin = within % chunks * unit.each, end = std::min(begin + unit.each, unit.tokens);
    if (!unit.by_token) return rows(side, streamed, row, within / chunks, begin, end - begin, 2, end - begin);
    const bool joined = side.x.stride(1) * unit.heads == side.x.stride(2) && side.y.stride(1) * unit.heads == side.y.stride(2);
    for (int64_t token = begin; token < end; ++token)
      rows(side, streamed, row, 0, token, unit.heads, 1, joined ? (end - token) * unit.heads : unit.heads);
  }

  // `count` rows along `axis`, the heads (1) or the tokens (2), from one of them on.
  void rows(const Side& side, bool streamed, int64_t row, int64_t head, int64_t token, int64_t count, int64_t axis,
            int64_t reach) const {
    const Tensor &x = side.x, &y = side.y, &cos = side.cos, &sin = side.sin;
    const int64_t c = cos.dims() - 2, s = sin.dims() - 2;
    const int64_t c_row = c == 1 && cos.size(0) > 1 ? row * cos.stride(0) : 0;
    const int64_t s_row = s == 1 && sin.size(0) > 1 ? row * sin.stride(0) : 0;
    Rows run{};
    run.x = x.data<char>() + (row * x.stride(0) + head * x.stride(1) + token * x.stride(2)) * side.size;
    run.y = y.data<char>() + (row * y.stride(0) + head * y.stride(1) + token * y.stride(2)) * side.size;
    run.cos = cos.data<float>() + c_row + token * cos.stride(c);
    run.sin = sin.data<float>() + s_row + token * sin.stride(s);
    run.count = count, run.reach = reach, run.width = x.size(3), run.first = first, run.pairs = pairs;
    run.x_step = x.stride(axis), run.x_feature = x.stride(3), run.y_step = y.stride(axis), run.y_feature = y.stride(3);
    run.cos_step = axis == 2 ? cos.stride(c) : 0, run.cos_pair = cos.stride(c + 1);
    run.sin_step = axis == 2 ? sin.stride(s) : 0, run.sin_pair = sin.stride(s + 1);
    run.direction = direction, run.stream = streamed;
    turn(run);
  }
};

void rotate_all(const Side (&sides)[2], int64_t first, bool interleaved, bool inverse) {
  const Tensor &q = sides[0].x, &k = sides[1].x;
  require(q.dims() == 4 && k.dims() == 4 && k.size(0) == q.size(0) && k.dtype() == q.dtype(),
          "ropewalk::rotate: q and k do not fit each other");
  require(sides[0].cos.dims() >= 1, "ropewalk::rotate: tables have to be [tokens, pairs] or [batch, tokens, pairs]");
  const int64_t pairs = sides[0].cos.size(sides[0].cos.dims() - 1);
  Work work{sides, {Units(q), Units(k)}, {}, q.size(0), first, pairs, inverse ? -1.0f : 1.0f, chosen(q.dtype(), interleaved)};
  int64_t elements = 0, units = 0;
  for (size_t n = 0; n < 2; ++n) {
    sides[n].check_shapes(first, pairs);
    elements += sides[n].x.elements();
    units += work.batch * work.units[n].in_row;
  }
  if (elements == 0) return;
  for (size_t n = 0; n < 2; ++n) work.stream[n] = sides[n].streams(elements * sides[n].size, work.units[n].by_token);
  if (elements <= kParallel) return work.run(0, units);
  check(torch_parallel_for(
      0, units, std::max(int64_t{1}, units * kParallel / elements),
      [](int64_t begin, int64_t end, void* context) { static_cast<Work*>(context)->run(begin, end); }, &work));
}

// A fresh tensor that lies in memory as x does where x has no gaps, or else in the order of its axes.
Tensor empty_like(const Tensor& x) {
  require(x.dims() == 4, "ropewalk::rotate: x has to be [batch, heads, tokens, width]");
  int64_t order[4] = {0, 1, 2, 3}, strides[4], step = 1;
  std::stable_sort(order, order + 4, [&](int64_t one, int64_t other) { return x.stride(one) > x.stride(other); });
  for (int64_t n = 3; n >= 0; --n) strides[order[n]] = step, step *= std::max(x.size(order[n]), int64_t{1});
  return Tensor::empty(4, x.sizes(), strides, x.dtype());
}

// What both operators are given; the tables of k are those of q where they are left out.
struct Arguments {
  Tensor q, k, cos, sin;
  std::optional<Tensor> k_cos, k_sin;
  int64_t first;
  bool interleaved, inverse;

  explicit Arguments(const StableIValue* stack)
      : q(stack[0]), k(stack[1]), cos(stack[2]), sin(stack[3]), k_cos(optional_tensor(stack[4])),
        k_sin(optional_tensor(stack[5])), first(static_cast<int64_t>(stack[6])), interleaved(stack[7] & 1),
        inverse(stack[8] & 1) {}

  void rotate_into(const Tensor& q_out, const Tensor& k_out) const {
    const int64_t size = bytes_of(q.dtype());
    rotate_all({{q, q_out, cos, sin, size}, {k, k_out, k_cos ? *k_cos : cos, k_sin ? *k_sin : sin, size}}, first,
               interleaved, inverse);
  }
};

void rotate(StableIValue* stack, uint64_t, uint64_t) {
  const Arguments given(stack);
  Tensor q_out = empty_like(given.q), k_out = empty_like(given.k);
  given.rotate_into(q_out, k_out);
  stack[0] = q_out.release();
  stack[1] = k_out.release();
}

// Into q_out and k_out, which may be q and k themselves.
void rotate_out(StableIValue* stack, uint64_t, uint64_t) {
  const Arguments given(stack);
  const Tensor q_out(stack[9]), k_out(stack[10]);
  given.rotate_into(q_out, k_out);
}

const bool rotations_registered = registered([] {
  const Library library;
  const std::string given =
      "(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor? k_cos, Tensor? k_sin, int first, bool interleaved, bool inverse";
  library.add("rotate", (given + ") -> (Tensor, Tensor)").c_str(), &rotate);
  library.add("rotate_out", (given + ", Tensor(a!) q_out, Tensor(b!) k_out) -> ()").c_str(), &rotate_out);
});

}  // namespace ropewalk

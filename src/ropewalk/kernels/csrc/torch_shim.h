// The part of torch's stable C interface that the kernels call, declared here so that they build without torch.
//
// Source: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h, torch 2.10 on. torch keeps these
// signatures from release to release: one binary serves all of them, and every Python.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

extern "C" {
struct AtenTensorOpaque;
struct TorchLibraryOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
using TorchLibraryHandle = TorchLibraryOpaque*;
using StableIValue = uint64_t;  // an argument or result of an operator: a handle, or a number in its lowest bytes
using AOTITorchError = int32_t;  // 0 where all went well
using Boxed = void (*)(StableIValue* stack, uint64_t arguments, uint64_t results);

int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_dtype_bfloat16();
int32_t aoti_torch_dtype_float16();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_float64();
int32_t aoti_torch_dtype_int64();
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** data);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* dims);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** sizes);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** strides);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* dtype);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* type);
AOTITorchError aoti_torch_empty_strided(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device_type, int32_t device_index, AtenTensorHandle* made);
AOTITorchError aoti_torch_library_init_fragment(const char* space, const char* file, uint32_t line,
                                                TorchLibraryHandle* made);
AOTITorchError aoti_torch_library_init_impl(const char* space, const char* key, const char* file, uint32_t line,
                                            TorchLibraryHandle* made);
AOTITorchError aoti_torch_library_def(TorchLibraryHandle library, const char* schema);
AOTITorchError aoti_torch_library_impl(TorchLibraryHandle library, const char* name, Boxed function);
AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                  void (*function)(int64_t begin, int64_t end, void* context), void* context);
}

namespace ropewalk {

inline void check(AOTITorchError error) {
  if (error != 0) throw std::runtime_error("ropewalk: torch refused a call of its C interface");
}

inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

// A tensor that this object owns: an argument from the stack, or a fresh result.
class Tensor {
 public:
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) { describe(); }
  explicit Tensor(StableIValue value) : Tensor(reinterpret_cast<AtenTensorHandle>(value)) {}
  Tensor(Tensor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), data_(other.data_), sizes_(other.sizes_),
        strides_(other.strides_), dims_(other.dims_), dtype_(other.dtype_) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }

  static Tensor empty(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype) {
    AtenTensorHandle made = nullptr;
    check(aoti_torch_empty_strided(dims, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, &made));
    return Tensor(made);
  }

  StableIValue release() { return reinterpret_cast<StableIValue>(std::exchange(handle_, nullptr)); }
  template <typename T> T* data() const { return static_cast<T*>(data_); }
  int64_t size(int64_t axis) const { return sizes_[axis]; }
  int64_t stride(int64_t axis) const { return strides_[axis]; }
  const int64_t* sizes() const { return sizes_; }
  int64_t dims() const { return dims_; }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t axis = 0; axis < dims_; ++axis) count *= sizes_[axis];
    return count;
  }
  bool dense() const {  // whether the elements lie one after the other, in the order of the axes
    if (elements() == 0) return true;
    int64_t step = 1;
    for (int64_t axis = dims_ - 1; axis >= 0; --axis) {
      if (sizes_[axis] > 1 && strides_[axis] != step) return false;
      step *= sizes_[axis];
    }
    return true;
  }
  int32_t dtype() const { return dtype_; }

 private:
  void describe() {
    int32_t device = 0;
    check(aoti_torch_get_device_type(handle_, &device));
    require(device == aoti_torch_device_type_cpu(), "ropewalk: this operator takes tensors on the CPU");
    check(aoti_torch_get_data_ptr(handle_, &data_));
    check(aoti_torch_get_dim(handle_, &dims_));
    check(aoti_torch_get_sizes(handle_, &sizes_));
    check(aoti_torch_get_strides(handle_, &strides_));
    check(aoti_torch_get_dtype(handle_, &dtype_));
  }

  AtenTensorHandle handle_;
  void* data_ = nullptr;
  int64_t* sizes_ = nullptr;
  int64_t* strides_ = nullptr;
  int64_t dims_ = 0;
  int32_t dtype_ = 0;
};

// Where operators on CPU tensors are made known to torch, which keeps them as long as the process lives.
class Library {
 public:
  Library() {
    check(aoti_torch_library_init_fragment("ropewalk", __FILE__, __LINE__, &definitions_));
    check(aoti_torch_library_init_impl("ropewalk", "CPU", __FILE__, __LINE__, &kernels_));
  }
  void add(const char* name, const char* schema, Boxed function) const {
    check(aoti_torch_library_def(definitions_, (std::string(name) + schema).c_str()));
    check(aoti_torch_library_impl(kernels_, name, function));
  }

 private:
  TorchLibraryHandle definitions_ = nullptr, kernels_ = nullptr;
};

// While a library is loaded nobody could catch what is thrown: Python asks torch afterwards what there is.
template <typename Add>
bool registered(Add add) noexcept {
  try {
    add();
    return true;
  } catch (...) {
    return false;
  }
}

// An optional argument is the address of its value, which the callee frees; 0 where it was left out.
inline std::optional<Tensor> optional_tensor(StableIValue value) {
  if (value == 0) return std::nullopt;
  auto* held = reinterpret_cast<StableIValue*>(value);
  const StableIValue handle = *held;
  delete held;
  return Tensor(handle);
}

}  // namespace ropewalk

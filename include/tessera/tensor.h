// Tensors that compute at once: every op runs when it is called. A Tensor is a handle; copying it is cheap and shares
// the value. Values are immutable: `a += b` gives `a` another value, and write() copies first when the memory is
// shared.
#ifndef TESSERA_TENSOR_H_
#define TESSERA_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/export.h"
#include "tessera/status.h"

namespace tessera {

namespace rt {
class Device;
class TensorImpl;
}  // namespace rt

/// A short list of numbers, such as dims, strides or a permutation. A tensor has at most 8 dims; lists of any length
/// can be made, and ops refuse those that are too long.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : values_(values) {}                  // NOLINT
  Dims(std::vector<int64_t> values) : values_(std::move(values)) {}                 // NOLINT
  Dims(std::span<const int64_t> values) : values_(values.begin(), values.end()) {}  // NOLINT
  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  int64_t operator[](size_t i) const { return values_[i]; }
  int64_t& operator[](size_t i) { return values_[i]; }
  const int64_t* data() const { return values_.data(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  bool operator==(const Dims&) const = default;

 private:
  std::vector<int64_t> values_;
};

/// The same for axes, where one number may stand without braces: sum(x, 0), sum(x, {0, 2}).
class Axes : public Dims {
 public:
  using Dims::Dims;
  Axes(int axis) : Dims({axis}) {}  // NOLINT
};

/// A place where tensors live. Two handles are equal when they name the same device.
class TSR_API Device {
 public:
  /// "cpu", "cuda" (the first GPU), "cuda:1" or "null" (checks ops and counts memory, computes nothing).
  static Result<Device> find(std::string_view name);
  static Device cpu();
  static Device null();
  static std::vector<Device> all();
  std::string_view name() const;
  bool operator==(const Device&) const = default;

  explicit Device(rt::Device* impl) : impl_(impl) {}
  rt::Device* impl() const { return impl_; }

 private:
  rt::Device* impl_;
};

template <class T>
class ReadView;
template <class T>
class WriteView;
struct Slice;
class Arg;

class TSR_API Tensor {
 public:
  /// A handle that holds nothing; ops on it fail with a clear error.
  Tensor() = default;
  Tensor(const Tensor& other) noexcept;
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Tensor() {
    if (impl_ != nullptr) Drop();
  }

  // ---- making one from host values (more ways in ops.h)
  /// A copy of `values` with those dims. T is double, float, int64_t, int32_t, int8_t, uint8_t or bool.
  template <class T>
  static Tensor from(std::span<const T> values, const Dims& dims) {
    return FromBytes(*DTypeOf<T>(), values.data(), values.size(), dims);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Dims& dims) {
    return from(std::span<const T>(values), dims);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values) {
    return from(std::span<const T>(values), {static_cast<int64_t>(values.size())});
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values) {
    return from(std::span<const T>(values.begin(), values.size()), {static_cast<int64_t>(values.size())});
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Dims& dims) {
    return from(std::span<const T>(values.begin(), values.size()), dims);
  }
  /// A scalar. Numbers beside tensors need none: `x * 0.5` works and keeps x's dtype.
  template <class T>
    requires std::is_arithmetic_v<T>
  static Tensor scalar(T value) {
    return from(std::span<const T>(&value, 1), {});
  }
  /// Contents of `bytes` read as dtype, in row-major order.
  static Tensor from_bytes(std::span<const std::byte> bytes, DType dtype, const Dims& dims);

  // ---- asking
  bool defined() const { return impl_ != nullptr; }
  int rank() const;
  Dims dims() const;
  /// Size of one dim; negative counts from the end.
  int64_t dim(int axis) const;
  /// Number of elements.
  int64_t size() const;
  DType dtype() const;
  Device device() const;
  /// In elements; 0 for broadcast dims, negative for flipped ones.
  Dims strides() const;
  bool is_contiguous() const;
  /// True when both look at the same memory.
  bool shares_storage_with(const Tensor& other) const;

  // ---- host access. A view holds the value; pointers into it are good as long as the view lives.
  template <class T>
  ReadView<T> read() const;
  template <class T>
  WriteView<T> write();
  /// Row-major bytes of any dtype.
  std::vector<std::byte> to_bytes() const;
  /// The elements converted to T, in row-major order.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<size_t>(size()));
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<uint8_t> bytes(values.size());
      CopyOut(DType::boolean, bytes.data());
      for (size_t i = 0; i < bytes.size(); ++i) values[i] = bytes[i] != 0;
    } else {
      CopyOut(*DTypeOf<T>(), values.data());
    }
    return values;
  }
  /// The one element of a tensor of size 1.
  template <class T>
    requires std::is_arithmetic_v<T>
  T item() const {
    T value;
    Item(*DTypeOf<T>(), &value);
    return value;
  }
  /// Values, then dtype and dims.
  std::string to_string() const;
  void print() const;

  // ---- views and copies; the first group shares this tensor's memory where strides can say it. `where` is the place
  // of the call, for messages and traces.
  using Where = std::source_location;
  Tensor reshape(const Dims& dims, Where where = Where::current()) const;
  Tensor transpose(const Dims& perm = {}, Where where = Where::current()) const;
  Tensor broadcast(const Dims& dims, Where where = Where::current()) const;
  Tensor squeeze(const Axes& axes = {}, Where where = Where::current()) const;
  Tensor unsqueeze(const Axes& axes, Where where = Where::current()) const;
  Tensor flip(const Axes& axes = {}, Where where = Where::current()) const;
  /// One slice for each leading dim: x[{{0, 4}, {none, none, 2}}] is x[0:4, ::2].
  Tensor operator[](std::initializer_list<Slice> slices) const;
  /// Row i: the first dim is removed; negative counts from the end.
  Tensor operator[](int64_t i) const;
  Tensor contiguous() const;
  Tensor clone(Where where = Where::current()) const;
  Tensor cast(DType dtype, Where where = Where::current()) const;
  Tensor to(Device device) const;

  Tensor& operator+=(const Arg& other);
  Tensor& operator-=(const Arg& other);
  Tensor& operator*=(const Arg& other);
  Tensor& operator/=(const Arg& other);

  // ---- for the other parts of Tessera
  static Tensor Adopt(rt::TensorImpl* impl) {
    Tensor t;
    t.impl_ = impl;
    return t;
  }
  /// The tensor behind the handle, null for an empty one. Its contents are there: ops that wait to run are run first,
  /// and an error of theirs is thrown.
  rt::TensorImpl* impl() const;
  /// The same as it is, perhaps without contents: good for its type alone.
  rt::TensorImpl* waiting_impl() const { return impl_; }

 private:
  template <class T>
  friend class ReadView;
  template <class T>
  friend class WriteView;
  static Tensor FromBytes(DType dtype, const void* data, size_t count, const Dims& dims);
  void Drop() noexcept;
  void CopyOut(DType dtype, void* out) const;
  void Item(DType dtype, void* out) const;
  /// This tensor with contiguous memory that the host can read; checks the dtype.
  Tensor HostReadable(DType dtype) const;
  /// Makes the memory contiguous and unshared.
  void MakeHostWritable(DType dtype);
  /// After that: itself where the host can write, else a copy of it, which WriteBack() brings to the device.
  Tensor WritableCopy(DType dtype);
  void WriteBack(const Tensor& values) noexcept;
  void* data() const;

  rt::TensorImpl* impl_ = nullptr;
};

/// start:stop:step of Python on one dim. `none` leaves a bound out.
inline constexpr int64_t none = std::numeric_limits<int64_t>::max();
struct Slice {
  int64_t start = none;
  int64_t stop = none;
  int64_t step = 1;
};

/// The elements in row-major order, for reading. Holds the value, so it may outlive the tensor.
template <class T>
class ReadView {
 public:
  explicit ReadView(const Tensor& tensor) : tensor_(tensor.HostReadable(*DTypeOf<T>())), size_(tensor_.size()) {}
  size_t size() const { return static_cast<size_t>(size_); }
  const T* data() const { return static_cast<const T*>(tensor_.data()); }
  const T& operator[](size_t i) const { return data()[i]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  operator std::span<const T>() const { return {data(), size()}; }  // NOLINT(google-explicit-constructor)

 private:
  Tensor tensor_;
  int64_t size_;
};

/// The elements in row-major order, for writing. Other tensors that shared the memory keep their values. Ops must not
/// read the tensor while the view lives.
template <class T>
class WriteView {
 public:
  explicit WriteView(Tensor& tensor)
      : tensor_(tensor.WritableCopy(*DTypeOf<T>())), target_(tensor), size_(tensor_.size()) {}
  WriteView(WriteView&&) noexcept = default;
  WriteView& operator=(WriteView&&) = delete;
  ~WriteView() {
    if (target_.defined()) target_.WriteBack(tensor_);
  }
  size_t size() const { return static_cast<size_t>(size_); }
  T* data() const { return static_cast<T*>(tensor_.data()); }
  T& operator[](size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  operator std::span<T>() const { return {data(), size()}; }  // NOLINT(google-explicit-constructor)

 private:
  Tensor tensor_;  // what the host writes to
  Tensor target_;  // what it is written for
  int64_t size_;
};

template <class T>
ReadView<T> Tensor::read() const {
  return ReadView<T>(*this);
}
template <class T>
WriteView<T> Tensor::write() {
  return WriteView<T>(*this);
}

/// An operand of an op: a tensor, a host number (which takes the dtype of the tensors beside it), or nothing where an
/// operand is optional. It also carries the source position of the call, for messages and traces.
class Arg {
 public:
  enum class Kind : uint8_t { none, tensor, boolean, integer, floating };

  Arg(std::source_location where = std::source_location::current()) : where_(where) {}     // NOLINT
  Arg(const Tensor& tensor, std::source_location where = std::source_location::current())  // NOLINT
      : kind_(Kind::tensor), tensor_(&tensor), where_(where) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Arg(T value, std::source_location where = std::source_location::current()) : where_(where) {  // NOLINT
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = Kind::boolean;
      integer_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      kind_ = Kind::integer;
      integer_ = static_cast<int64_t>(value);
    } else {
      kind_ = Kind::floating;
      floating_ = static_cast<double>(value);
    }
  }

  Kind kind() const { return kind_; }
  const Tensor& tensor() const { return *tensor_; }
  int64_t integer() const { return integer_; }
  double floating() const { return floating_; }
  const std::source_location& where() const { return where_; }

 private:
  Kind kind_ = Kind::none;
  union {
    const Tensor* tensor_ = nullptr;
    int64_t integer_;
    double floating_;
  };
  std::source_location where_;
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_H_

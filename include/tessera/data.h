// Data for training: token files and arrays that are mapped, batches in a shuffled order that can be taken up anywhere,
// made ahead on a thread; and the files that tensors travel in, safetensors and .npz.
//
//   data::Batches batches(data::Tokens::open("text.bin").value(), {.batch = 16, .length = 1024, .seed = 1});
//   auto [x, y] = batches.next();
#ifndef TESSERA_DATA_H_
#define TESSERA_DATA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera::data {

// ---- files of tensors

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  // safetensors only
};
/// Tensors by name in the safetensors format. The file is there as a whole or not at all.
TSR_API Status save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                                const std::map<std::string, std::string>& metadata = {});
/// Refuses what the format forbids: a header above 100 MB, names that come twice, tensors that overlap, leave holes or
/// lie outside the file, sizes that do not fit their shapes.
TSR_API Result<TensorFile> load_safetensors(const std::string& path);
TSR_API Result<TensorFile> parse_safetensors(std::span<const std::byte> bytes);

/// NumPy's .npz: np.load reads it. Arrays are stored, not compressed; each is below 4 GiB.
TSR_API Status save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors);
/// Compressed arrays (np.savez_compressed) are refused; checksums, bounds and overlaps are checked.
TSR_API Result<TensorFile> load_npz(const std::string& path);
TSR_API Result<TensorFile> parse_npz(std::span<const std::byte> bytes);

/// A .npy file that is mapped, not read: rows of its first dim are copied out when they are asked for.
class TSR_API MappedArray {
 public:
  static Result<MappedArray> open(const std::string& path);
  DType dtype() const;
  const Dims& dims() const;
  /// Rows first, first + 1, ..., as a tensor of `count` rows. Throws Error outside the array.
  Tensor rows(int64_t first, int64_t count) const;

 private:
  friend class Tokens;
  struct State;
  std::shared_ptr<const State> state_;
};

// ---- tokens

/// A long list of token numbers in a file, which is mapped: bytes, little-endian u16 or i32 without a header, or a .npy
/// of one dim of u8 or i32. Also a list in memory. Cheap to copy; may be read on any thread.
class TSR_API Tokens {
 public:
  enum class Width { u8 = 1, u16 = 2, i32 = 4 };
  static Result<Tokens> open(const std::string& path, Width width = Width::u8);
  static Tokens of(std::string text);  // one token for each byte
  int64_t size() const;
  /// Tokens [first, first + out.size()). They must be there.
  void read(int64_t first, std::span<int32_t> out) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// A permutation of 0 .. count - 1 for each epoch. It is computed, not stored: any place of it costs the same.
class TSR_API Order {
 public:
  Order(int64_t count, uint64_t seed) : count_(count), seed_(seed) {}
  int64_t count() const { return count_; }
  int64_t at(int64_t epoch, int64_t index) const;

 private:
  int64_t count_;
  uint64_t seed_;
};

struct BatchOptions {
  int64_t batch = 8;
  int64_t length = 64;
  uint64_t seed = 0;
  int prefetch = 2;  // batches made ahead on a thread and, for a GPU, copied to it meanwhile; 0: made by next()
};
struct Batch {
  Tensor x, y;  // i32 [batch, length]: tokens, and those that follow them
};
/// Windows of `length` tokens, each once in an epoch, in an order that follows from the seed. Batch n is the same
/// however it was reached, so position() is all that a checkpoint needs. Used on one thread.
class TSR_API Batches {
 public:
  /// Throws Error where the tokens do not fill one batch.
  Batches(Tokens tokens, const BatchOptions& options);
  ~Batches();
  Batches(Batches&&) noexcept;
  Batches& operator=(Batches&&) noexcept;

  Batch next();
  /// How many batches were taken.
  int64_t position() const;
  void seek(int64_t position);
  int64_t batches_per_epoch() const;
  /// The same with another shape, from its first batch on.
  void set_shape(int64_t batch, int64_t length);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::data

#endif  // TESSERA_DATA_H_

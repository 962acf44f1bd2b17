// Mapped arrays and tokens, and batches of them in a shuffled order.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/data.h"
#include "tessera/runtime.h"
#include "tessera/upload.h"
#include "train/files.h"
#include "train/npy.h"

namespace tessera::data {

using train::Bytes;

namespace {

[[noreturn]] void Refuse(Code code, const std::string& message) { throw Error(Status(code, message)); }

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

// ---- arrays

struct MappedArray::State {
  std::shared_ptr<const train::MappedFile> file;
  train::NpyLayout layout;
};

Result<MappedArray> MappedArray::open(const std::string& path) {
  auto file = train::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto layout = train::ReadNpyLayout((*file)->bytes());
  if (!layout.ok()) return Status(layout.status().code(), path + ": " + layout.status().message());
  MappedArray array;
  array.state_ = std::make_shared<const State>(State{*file, *layout});
  return array;
}
DType MappedArray::dtype() const { return state_->layout.dtype; }
const Dims& MappedArray::dims() const { return state_->layout.dims; }
Tensor MappedArray::rows(int64_t first, int64_t count) const {
  const Dims& all = dims();
  if (all.empty() || first < 0 || count < 0 || first > all[0] || count > all[0] - first)
    Refuse(Code::out_of_range, "MappedArray::rows: rows " + std::to_string(first) + " to " +
                                   std::to_string(first + count) + " of an array of " +
                                   std::to_string(all.empty() ? 0 : all[0]));
  Dims dims = all;
  dims[0] = count;
  size_t row = SizeOf(dtype());
  for (size_t i = 1; i < all.size(); ++i) row *= static_cast<size_t>(all[i]);
  const Bytes elements = state_->file->bytes().subspan(state_->layout.begin);
  return Tensor::from_bytes(elements.subspan(row * static_cast<size_t>(first), row * static_cast<size_t>(count)),
                            dtype(), dims);
}

// ---- tokens

struct Tokens::State {
  std::shared_ptr<const train::MappedFile> file;
  std::string text;  // where there is no file
  Bytes bytes;
  Width width = Width::u8;
};

Result<Tokens> Tokens::open(const std::string& path, Width width) {
  auto file = train::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto state = std::make_shared<State>();
  state->file = *file;
  state->bytes = (*file)->bytes();
  state->width = width;
  if (path.ends_with(".npy")) {
    auto layout = train::ReadNpyLayout(state->bytes);
    if (!layout.ok()) return Status(layout.status().code(), path + ": " + layout.status().message());
    if (layout->dims.size() != 1 || (layout->dtype != u8 && layout->dtype != i32))
      return Status(Code::unsupported, path + ": tokens are one dim of u8 or i32");
    state->width = layout->dtype == u8 ? Width::u8 : Width::i32;
    state->bytes = state->bytes.subspan(layout->begin);
  }
  if (state->bytes.size() % static_cast<size_t>(state->width) != 0)
    return Status(Code::data_loss, path + ": its size is no multiple of " +
                                       std::to_string(static_cast<int>(state->width)) + " bytes, a token");
  Tokens tokens;
  tokens.state_ = std::move(state);
  return tokens;
}

Tokens Tokens::of(std::string text) {
  auto state = std::make_shared<State>();
  state->text = std::move(text);
  state->bytes = train::BytesOf(state->text);
  Tokens tokens;
  tokens.state_ = std::move(state);
  return tokens;
}

int64_t Tokens::size() const {
  return state_ == nullptr ? 0 : static_cast<int64_t>(state_->bytes.size() / static_cast<size_t>(state_->width));
}

void Tokens::read(int64_t first, std::span<int32_t> out) const {
  const size_t width = static_cast<size_t>(state_->width);
  const std::byte* p = state_->bytes.data() + static_cast<size_t>(first) * width;
  for (int32_t& token : out) {
    switch (state_->width) {
      case Width::u8: token = static_cast<int32_t>(*p); break;
      case Width::u16: token = train::ReadLittle<uint16_t>(p); break;
      case Width::i32: token = train::ReadLittle<int32_t>(p); break;
    }
    p += width;
  }
}

// ---- order

// A Feistel network permutes 0 .. 4^k - 1; what falls outside goes through it again until it falls inside.
int64_t Order::at(int64_t epoch, int64_t index) const {
  int half = 1;
  while (half < 31 && (uint64_t{1} << (2 * half)) < static_cast<uint64_t>(count_)) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const uint64_t key = Mix(seed_ ^ Mix(static_cast<uint64_t>(epoch) + 0x9e3779b97f4a7c15));
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (Mix(right + key * (2 * round + 1) + round) & mask);
      left = right;
      right = next;
    }
    value = (left << half) | right;
  } while (value >= static_cast<uint64_t>(count_));
  return static_cast<int64_t>(value);
}

// ---- batches

struct Batches::Impl {
  struct Host {
    std::vector<int32_t> x, y;
    Upload device_x, device_y;  // in place of those, where they are on their way
  };

  Impl(Tokens tokens, const BatchOptions& options) : tokens(std::move(tokens)), options(options) { Check(); }
  ~Impl() { Stop(); }

  void Check() const {
    if (options.batch < 1 || options.length < 1)
      Refuse(Code::invalid_argument, "Batches: a batch is at least one row of one token");
    if (windows() < options.batch)
      Refuse(Code::invalid_argument, "Batches: " + std::to_string(tokens.size()) + " tokens do not fill one batch of " +
                                         std::to_string(options.batch) + " rows of " + std::to_string(options.length) +
                                         " and the token after each");
  }
  int64_t windows() const { return (tokens.size() - 1) / options.length; }
  int64_t per_epoch() const { return windows() / options.batch; }

  // A pure function of the number: nothing to keep in step when a run is taken up again.
  Host Make(int64_t number) const {
    const Order order(windows(), options.seed);
    Host host;
    std::vector<int32_t> row(static_cast<size_t>(options.length) + 1);
    for (int64_t i = 0; i < options.batch; ++i) {
      const int64_t window = order.at(number / per_epoch(), number % per_epoch() * options.batch + i);
      tokens.read(window * options.length, row);
      host.x.insert(host.x.end(), row.begin(), row.end() - 1);
      host.y.insert(host.y.end(), row.begin() + 1, row.end());
    }
    return host;
  }

  // On the loader's thread: what fails here, for want of memory perhaps, is tried again by next(), which may say so.
  void Send(Host& host) const try {
    const Dims dims = {options.batch, options.length};
    Upload x = Upload::start(std::span<const int32_t>(host.x), dims, device);
    host.device_y = Upload::start(std::span<const int32_t>(host.y), dims, device);
    host.device_x = std::move(x);
  } catch (const Error&) {
  }

  void Start() {
    stopping = false;
    thread = std::thread([this, number = position]() mutable {
      for (;; ++number) {
        Host host = Make(number);
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return stopping || ready.size() < static_cast<size_t>(options.prefetch); });
          if (stopping) return;
        }
        Send(host);  // when there is room for it: no more batches are on the device than are asked for
        std::lock_guard lock(mutex);
        ready.push_back(std::move(host));
        changed.notify_all();
      }
    });
  }
  void Stop() {
    if (!thread.joinable()) return;
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
    ready.clear();
  }
  Host Take() {
    if (options.prefetch <= 0) return Make(position);
    if (!thread.joinable()) Start();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !ready.empty(); });
    Host host = std::move(ready.front());
    ready.pop_front();
    changed.notify_all();
    return host;
  }

  Tokens tokens;
  BatchOptions options;
  int64_t position = 0;
  Device device = Device::cpu();  // that batches are made for
  std::thread thread;  // runs from the first next() on
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Host> ready;
  bool stopping = false;
};

Batches::Batches(Tokens tokens, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(std::move(tokens), options)) {}
Batches::~Batches() = default;
Batches::Batches(Batches&&) noexcept = default;
Batches& Batches::operator=(Batches&&) noexcept = default;

Batch Batches::next() {
  if (const Device device = Runtime::device(); device != impl_->device) {
    impl_->Stop();  // what was made ahead is for another one
    impl_->device = device;
  }
  Impl::Host host = impl_->Take();
  ++impl_->position;
  if (host.device_x.defined() && host.device_y.defined()) return {host.device_x.take(), host.device_y.take()};
  const Dims dims = {impl_->options.batch, impl_->options.length};
  return {Tensor::from(host.x, dims), Tensor::from(host.y, dims)};
}
int64_t Batches::position() const { return impl_->position; }
void Batches::seek(int64_t position) {
  if (position < 0) Refuse(Code::invalid_argument, "Batches::seek: there is no batch " + std::to_string(position));
  impl_->Stop();
  impl_->position = position;
}
int64_t Batches::batches_per_epoch() const { return impl_->per_epoch(); }
void Batches::set_shape(int64_t batch, int64_t length) {
  impl_->Stop();
  const BatchOptions before = impl_->options;
  impl_->options.batch = batch;
  impl_->options.length = length;
  try {
    impl_->Check();
  } catch (const Error&) {
    impl_->options = before;
    throw;
  }
  impl_->position = 0;
}

}  // namespace tessera::data

// Tapes under a limit: what the store let go of is computed again when its turn comes, from what is still there.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "interp/api/eager.h"
#include "interp/api/tape_record.h"
#include "runtime/log.h"

namespace tessera::api {

using ir::Op;
using rt::TensorImpl;

namespace {

/// Call sites of ops that run again come after those of their gradients (tape_gradient.cc).
constexpr uintptr_t kAgainSite = 1023;

int64_t BytesOf(const TensorType& t) { return t.size() * static_cast<int64_t>(SizeOf(t.dtype)); }

/// Multiplications of a product, or what costs as much; 0 for ops that are as fast as memory.
double ProductsOf(Op op, const TensorType& a, const TensorType& b, const TensorType& y) {
  const auto size = [](const TensorType& t) { return static_cast<double>(t.size()); };
  switch (op) {
    case Op::k_matmul:
    case Op::k_dot_general: {
      const double out = size(y);
      return out == 0 ? 0 : out * std::sqrt(size(a) * size(b) / out);
    }
    case Op::k_conv: return b.rank == 0 || b.dims[0] == 0 ? 0 : size(y) * size(b) / static_cast<double>(b.dims[0]);
    case Op::k_attention: return b.rank < 2 ? 0 : 2 * size(a) * static_cast<double>(b.dims[b.rank - 2]);
    default: return 0;
  }
}

}  // namespace

void TapeRecord::SetLimit(int64_t bytes) {
  if (num_slots_ > 0) Throw(InvalidArgument("limit: the tape knows values already; say it before watch()"));
  if (bytes < 0) Throw(InvalidArgument("limit: ", bytes, " bytes; 0 is no limit"));
  store_ = bytes > 0 ? std::make_unique<TapeStore>(bytes) : nullptr;
}

TapeStore::Made TapeRecord::Describe(const Node& node, size_t result, const TensorImpl& x) const {
  const ir::OpInfo& info = ir::Info(node.op);
  TapeStore::Made made;
  made.maker = {static_cast<int32_t>(&node - nodes_.data()), static_cast<int32_t>(result)};
  made.bytes = BytesOf(x);
  made.base = info.impl == ir::Impl::view ? node.in[0].slot : -1;
  made.can_repeat = info.effect == ir::Effect::pure;
  made.cost = static_cast<double>(made.bytes);
  for (const Saved& s : node.in)
    if (s.kind == ir::Operand::Kind::value) made.cost += static_cast<double>(BytesOf(s.type));
  if (node.in.size() >= 2) {
    // About as many as the device does while it moves a byte.
    const double a_byte = node.device->kind() == rt::DeviceKind::cuda ? 50 : 1;
    made.cost += ProductsOf(node.op, node.in[0].type, node.in[1].type, x) / a_byte;
  }
  return made;
}

std::vector<Tensor> TapeRecord::RunAgain(const Node& node, const absl::flat_hash_map<int32_t, Tensor>& values) {
  absl::InlinedVector<const View*, 8> in(node.in.size(), nullptr);
  std::vector<interp::ScalarView> numbers(node.in.size());
  for (size_t i = 0; i < node.in.size(); ++i) {
    const Saved& s = node.in[i];
    if (s.kind == ir::Operand::Kind::immediate) {
      std::visit([&](auto v) { numbers[i].Set(v); }, s.number);
      in[i] = &numbers[i];
    } else if (s.kind == ir::Operand::Kind::value) {
      in[i] = (s.slot < 0 ? s.value : values.at(s.slot)).waiting_impl();
    }
  }
  ++repeated_;
  const auto site = reinterpret_cast<uintptr_t>(node.site) + kAgainSite;
  return RunViews(node.op, in, node.attrs, *node.device, reinterpret_cast<const void*>(site), &node.where);
}

Tensor TapeRecord::ValueOf(int32_t slot) {
  if (const Tensor& held = store_->Held(slot); held.defined()) return held;
  // The nodes that have to run, and how often each value is read by them. A node comes after what it reads.
  absl::flat_hash_set<int32_t> found;
  absl::flat_hash_map<int32_t, int> reads;
  absl::flat_hash_map<int32_t, Tensor> values;  // that these nodes read; the store may let go of them meanwhile
  std::vector<int32_t> look = {slot};
  while (!look.empty()) {
    const int32_t next = look.back();
    look.pop_back();
    const int32_t maker = store_->maker(next).node;
    if (!found.insert(maker).second) continue;
    for (const Saved& s : nodes_[static_cast<size_t>(maker)].in) {
      if (s.slot < 0) continue;
      ++reads[s.slot];
      if (const Tensor& held = store_->Held(s.slot); held.defined())
        values[s.slot] = held;
      else
        look.push_back(s.slot);
    }
  }
  std::vector<int32_t> order(found.begin(), found.end());
  std::sort(order.begin(), order.end());
  Tensor result;
  for (const int32_t n : order) {
    const Node& node = nodes_[static_cast<size_t>(n)];
    const std::vector<Tensor> results = RunAgain(node, values);
    for (size_t i = 0; i < results.size(); ++i) {
      const int32_t at = node.out[i].slot;
      if (at < 0) continue;
      if (at == slot) result = results[i];
      if (reads.contains(at)) values[at] = results[i];
      if (store_->is_wanted(at)) store_->PutBack(at, results[i]);
    }
    for (const Saved& s : node.in)
      if (s.slot >= 0 && --reads[s.slot] == 0) values.erase(s.slot);
  }
  return result;
}

void TapeRecord::Fetch(Node& node) {
  for (std::vector<Saved>* side : {&node.out, &node.in})
    for (Saved& s : *side)
      if (s.is_kept) s.value = ValueOf(s.slot);
  if (once_) Drop(node);
}

void TapeRecord::Drop(Node& node) {
  for (std::vector<Saved>* side : {&node.out, &node.in}) {
    for (Saved& s : *side) {
      if (!s.is_kept) continue;
      if (once_) {
        store_->Done(s.slot);
        s.is_kept = false;
      } else {
        s.value = Tensor();
      }
    }
  }
}

void TapeRecord::EndWalk() {
  if (store_ == nullptr) return;
  TSR_LOG(2, "a tape of ", nodes_.size(), " ops kept ", store_->kept(), " of ", store_->all(), " bytes and ran ",
          std::exchange(repeated_, 0), " ops again");
  static std::atomic<bool> told{false};
  if (store_->kept() > store_->limit() && !told.exchange(true))
    TSR_LOG(1, "a tape may keep ", store_->limit(), " bytes and keeps ", store_->kept(),
            ": nothing more of it can be computed again");
  if (once_)
    store_ = nullptr;
  else
    store_->DropPutBack();
}

}  // namespace tessera::api

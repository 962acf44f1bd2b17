#include "interp/api/tape_store.h"

#include <algorithm>

namespace tessera::api {

void TapeStore::AddGiven(const Tensor& x) {
  values_.push_back({x, static_cast<int32_t>(groups_.size()), 0, {}});
  groups_.emplace_back();
}

void TapeStore::AddResult(const Made& made, absl::Span<const int32_t> operands) {
  const auto slot = static_cast<int32_t>(values_.size());
  int32_t group = made.base >= 0 ? values_[made.base].group : -1;
  if (group < 0) {
    group = static_cast<int32_t>(groups_.size());
    Group& g = groups_.emplace_back();
    g.bytes = made.bytes;
    g.cost = made.cost;
    g.can_repeat = made.can_repeat;
    for (const int32_t operand : operands) {
      if (operand < 0) continue;
      const int32_t from = values_[operand].group;
      if (!groups_[from].can_repeat || std::find(g.operands.begin(), g.operands.end(), from) != g.operands.end())
        continue;
      g.operands.push_back(from);
    }
  }
  values_.push_back({Tensor(), group, 0, made.maker});
  groups_[group].values.push_back(slot);
}

void TapeStore::Keep(int32_t slot, rt::TensorImpl& x) {
  Value& value = values_[slot];
  ++value.wanted;
  Group& g = groups_[value.group];
  if (!g.is_kept) {
    g.is_kept = true;
    all_ += g.bytes;
    kept_ += g.bytes;
    Offer(value.group);
  }
  if (g.has_gone || value.tensor.defined()) return;
  x.Retain();
  value.tensor = Tensor::Adopt(&x);
}

double TapeStore::ChainOf(const Group& g) const {
  double cost = g.cost;
  for (const int32_t from : g.operands)
    if (groups_[from].has_gone) cost += groups_[from].chain;
  return cost;
}

void TapeStore::Offer(int32_t group) {
  const Group& g = groups_[group];
  if (g.can_repeat && g.is_kept && !g.has_gone && g.bytes > 0)
    candidates_.push({ChainOf(g) / static_cast<double>(g.bytes), group});
}

void TapeStore::MakeRoom() {
  while (kept_ > limit_ && !candidates_.empty()) {
    const Candidate best = candidates_.top();
    candidates_.pop();
    Group& g = groups_[best.group];
    if (g.has_gone) continue;
    g.chain = ChainOf(g);
    if (g.chain / static_cast<double>(g.bytes) > best.score) {
      Offer(best.group);  // what it is computed from has gone since
      continue;
    }
    g.has_gone = true;
    kept_ -= g.bytes;
    for (const int32_t slot : g.values) values_[slot].tensor = Tensor();
  }
}

void TapeStore::Done(int32_t slot) {
  Value& value = values_[slot];
  if (--value.wanted == 0 && value.maker.node >= 0) value.tensor = Tensor();
}

void TapeStore::DropPutBack() {
  for (Value& value : values_)
    if (groups_[value.group].has_gone) value.tensor = Tensor();
}

}  // namespace tessera::api

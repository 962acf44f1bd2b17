#include "interp/api/tape_store.h"

#include <algorithm>
#include <cmath>

namespace tessera::api {

void TapeStore::Hold(Value& value, const Tensor& x) {
  if (value.tensor.defined()) return;
  value.tensor = x;
  Group& g = groups_[value.group];
  if (g.held++ == 0) held_ += g.bytes;
}

void TapeStore::LetGo(Value& value) {
  if (!value.tensor.defined()) return;
  value.tensor = Tensor();
  Group& g = groups_[value.group];
  if (--g.held == 0) held_ -= g.bytes;
}

void TapeStore::AddGiven(const Tensor& x) {
  values_.push_back({Tensor(), static_cast<int32_t>(groups_.size()), 0, {}});
  groups_.emplace_back();
  Hold(values_.back(), x);
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
    g.chain = ChainOf(g);
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
    Offer(value.group);
  }
  if (g.has_gone) return;
  x.Retain();
  Hold(value, Tensor::Adopt(&x));
}

double TapeStore::ChainOf(const Group& g) const {
  double cost = g.cost;
  for (const int32_t from : g.operands)
    if (groups_[from].has_gone || !groups_[from].is_kept) cost += groups_[from].chain;
  return cost;
}

void TapeStore::Offer(int32_t group) {
  const Group& g = groups_[group];
  if (g.can_repeat && g.is_kept && !g.has_gone && g.bytes > 0)
    candidates_.push({ChainOf(g) / static_cast<double>(g.bytes), group});
}

void TapeStore::MakeRoom() {
  while (held_ > limit_ && !candidates_.empty()) {
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
    for (const int32_t slot : g.values) LetGo(values_[slot]);
  }
  kept_ = held_;
}

void TapeStore::PutBack(int32_t slot, const Tensor& x) {
  if (values_[slot].tensor.defined()) return;
  Hold(values_[slot], x);
  put_back_.push_back(slot);
  const auto room = std::max(limit_, static_cast<int64_t>(static_cast<double>(all_) /
                                                          std::sqrt(static_cast<double>(groups_.size()))));
  while (held_ > room && put_back_.size() > 1) {
    LetGo(values_[put_back_.front()]);
    put_back_.pop_front();
  }
}

void TapeStore::Done(int32_t slot) {
  Value& value = values_[slot];
  if (--value.wanted == 0 && value.maker.node >= 0) LetGo(value);
}

void TapeStore::DropPutBack() {
  for (const int32_t slot : put_back_) LetGo(values_[slot]);
  put_back_.clear();
}

}  // namespace tessera::api

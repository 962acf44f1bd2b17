#include "tiers/costs.h"

#include <algorithm>
#include <bit>

namespace tessera::tiers {
namespace {

int BitsOf(int64_t size) { return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(size, 0))); }

template <class Classes>
auto Find(Classes& classes, int bits) {
  return std::find_if(classes.begin(), classes.end(), [&](const auto& c) { return c.bits == bits; });
}

}  // namespace

double Costs::Scaled(const Class& c, int64_t size) {
  const double grows = c.size > 0 ? static_cast<double>(size) / static_cast<double>(c.size) : 1;
  return static_cast<double>(c.ns) * (0.5 + 0.5 * grows);
}

void Costs::Add(int64_t size, int64_t ns) {
  if (ns <= 0) return;
  std::lock_guard lock(mutex_);
  const auto it = Find(classes_, BitsOf(size));
  if (it == classes_.end()) {
    classes_.push_back({BitsOf(size), 1, size, ns});
    return;
  }
  ++it->count;
  if (static_cast<double>(ns) >= Scaled(*it, size)) return;
  it->size = size;
  it->ns = ns;
}

double Costs::Of(int64_t size) const {
  std::lock_guard lock(mutex_);
  const auto it = Find(classes_, BitsOf(size));
  return it != classes_.end() ? Scaled(*it, size) : 0;
}

int Costs::Count(int64_t size) const {
  std::lock_guard lock(mutex_);
  const auto it = Find(classes_, BitsOf(size));
  return it != classes_.end() ? it->count : 0;
}

Costs::Classes Costs::classes() const {
  std::lock_guard lock(mutex_);
  return classes_;
}

void Costs::Merge(const Costs& other) {
  for (const Class& c : other.classes()) {
    Add(c.size, c.ns);
    std::lock_guard lock(mutex_);
    Find(classes_, c.bits)->count += c.count - 1;
  }
}

void Costs::Clear() {
  std::lock_guard lock(mutex_);
  classes_.clear();
}

Costs::Sums Costs::Compare(const Costs& a, const Costs& b) {
  Sums sums;
  const Classes others = b.classes();
  for (const Class& mine : a.classes()) {
    const auto it = Find(others, mine.bits);
    if (it == others.end()) continue;
    sums.a += static_cast<double>(mine.ns);
    sums.b += Scaled(*it, mine.size);
  }
  return sums;
}

int64_t SizeOfRun(const tracer::Trace& recording) {
  int64_t size = 0;
  for (const tracer::TraceValue& v : recording.values)
    if (v.kind != tracer::TraceValue::Kind::number) size += v.type.size();
  return size;
}

}  // namespace tessera::tiers

// What runs took, by the size of their shapes. A version for many shapes runs with small ones now and with large ones
// then, and so does tier 1: times are compared only where both were timed with shapes of about the same size.
#ifndef TESSERA_TIERS_COSTS_H_
#define TESSERA_TIERS_COSTS_H_

#include <cstdint>
#include <mutex>

#include "absl/container/inlined_vector.h"
#include "tracer/trace.h"

namespace tessera::tiers {

/// Thread-safe, with a lock that is held for nanoseconds. Sizes are numbers of elements in classes from one power of
/// two to the next; of each class the best time is kept. Where all shapes are the same, any size does.
class Costs {
 public:
  void Add(int64_t size, int64_t ns);
  /// What a run of that size takes at best; 0 where none of its class was timed. Within a class one half of the time is
  /// taken to grow with the size.
  double Of(int64_t size) const;
  /// How many runs of the class of that size were timed.
  int Count(int64_t size) const;
  void Merge(const Costs& other);
  void Clear();

  /// The times of both, summed over the classes that both have; 0 and 0: there is none.
  struct Sums {
    double a = 0, b = 0;
  };
  static Sums Compare(const Costs& a, const Costs& b);

 private:
  struct Class {
    int bits;  // of the size
    int count;
    int64_t size, ns;  // the best
  };
  using Classes = absl::InlinedVector<Class, 1>;
  static double Scaled(const Class& c, int64_t size);
  Classes classes() const;
  mutable std::mutex mutex_;
  Classes classes_;
};

/// The elements of all values of a recording.
int64_t SizeOfRun(const tracer::Trace& recording);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_COSTS_H_

// Finds how the matrix products of a trace are cut best, by trying: the program's own runs are what is timed.
#ifndef TESSERA_TIERS_TUNER_H_
#define TESSERA_TIERS_TUNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tiers {

class Code;

/// One product after another, one choice after another: what was fastest stays. The first schedule is the empty one,
/// the choice of the compiler's model of costs.
class Tuner {
 public:
  /// `space` is what the compiler declares: a line for each product, "p4 rows=64,columns=128 form=library ...".
  /// `budget_ns`: of compiles.
  Tuner(std::string_view space, int64_t budget_ns);

  /// The schedule that was tried last: its fastest run (INT64_MAX: there was none), and what its compile took.
  void Measured(int64_t run_ns, int64_t compile_ns);
  /// What to try next; the best one when nothing is left to try.
  std::string Next();
  bool done() const { return product_ >= products_.size() || spent_ns_ >= budget_ns_; }
  const std::string& best() const { return best_; }
  int64_t tried() const { return tried_; }
  bool empty() const { return products_.empty(); }
  /// "the first 41.2 us, p4:form=library 43.0 us": what each that was tried took at best.
  const std::string& times() const { return times_; }

  /// Of best(), so that it need not be compiled again; null where all of it is the library's.
  std::shared_ptr<const Code> best_code;

 private:
  struct Product {
    std::string name;
    std::vector<std::string> choices;
  };
  std::vector<Product> products_;
  size_t product_ = 0, choice_ = 0;
  std::string trying_, best_, settled_;  // settled_: of the products before this one
  std::string times_;
  int64_t best_ns_ = INT64_MAX, spent_ns_ = 0, budget_ns_, tried_ = 0;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_TUNER_H_

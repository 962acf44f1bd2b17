#include "tiers/tuner.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::tiers {
namespace {

// A choice that is not faster by more than this may be so by chance.
constexpr double kWorth = 0.98;

}  // namespace

Tuner::Tuner(std::string_view space, int64_t budget_ns) : budget_ns_(budget_ns) {
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(space.data(), space.size()), '\n', absl::SkipEmpty())) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 2) continue;
    Product product{words[0], {}};
    product.choices.assign(words.begin() + 1, words.end());
    products_.push_back(std::move(product));
  }
}

void Tuner::Measured(int64_t run_ns, int64_t compile_ns) {
  ++tried_;
  spent_ns_ += compile_ns;
  absl::StrAppend(&times_, times_.empty() ? "" : ", ", trying_.empty() ? "the first" : trying_, " ");
  if (run_ns == INT64_MAX)
    absl::StrAppend(&times_, "none");
  else
    absl::StrAppend(&times_, run_ns / 1000, ".", run_ns / 100 % 10, " us");
  if (run_ns == INT64_MAX) return;
  if (best_ns_ == INT64_MAX || static_cast<double>(run_ns) < kWorth * static_cast<double>(best_ns_)) {
    best_ns_ = run_ns;
    best_ = trying_;
  }
}

std::string Tuner::Next() {
  if (done()) return trying_ = best_;
  if (choice_ == 0) settled_ = best_;
  const Product& product = products_[product_];
  trying_ = absl::StrCat(settled_, settled_.empty() ? "" : "+", product.name, ":", product.choices[choice_]);
  if (++choice_ == product.choices.size()) {
    choice_ = 0;
    ++product_;
  }
  return trying_;
}

}  // namespace tessera::tiers

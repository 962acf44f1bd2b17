#include "interp/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/dispatch.h"

namespace tessera::interp {
namespace {

constexpr int64_t kWholeUpTo = 1000;  // elements; above that each long dim shows kEdge at either end
constexpr int64_t kEdge = 3;

class Formatter {
 public:
  explicit Formatter(const View& x) : x_(x), summarise_(x.size() > kWholeUpTo) {
    Visit(0, 0, [&](int64_t offset) { texts_.push_back(Element(offset)); });
    for (const std::string& t : texts_) width_ = std::max(width_, t.size());
  }

  std::string Run() {
    std::string out;
    Print(0, 0, &out);
    return out;
  }

 private:
  const char* At(int64_t offset) const { return x_.as<char>() + offset * static_cast<int64_t>(SizeOf(x_.dtype)); }

  std::string Element(int64_t offset) const {
    const char* p = At(offset);
    if (x_.dtype == DType::boolean) return *p ? "true" : "false";
    if (IsInt(x_.dtype)) return std::to_string(cpu::ToInt64(p, x_.dtype));
    const double v = cpu::ToDouble(p, x_.dtype);
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    char text[40];
    const int digits = x_.dtype == DType::f64 ? 8 : IsNarrowFloat(x_.dtype) ? 4 : 6;
    std::snprintf(text, sizeof(text), "%.*g", digits, v);
    std::string s = text;
    // "3." tells a float from an integer.
    if (s.find_first_of(".en") == std::string::npos) s += ".";
    return s;
  }

  bool Skips(int dim, int64_t i) const { return summarise_ && x_.dims[dim] > 2 * kEdge && i == kEdge; }

  template <class Fn>
  void Visit(int dim, int64_t offset, Fn&& fn) {
    if (dim == x_.rank) return fn(offset);
    for (int64_t i = 0; i < x_.dims[dim]; ++i) {
      if (Skips(dim, i)) i = x_.dims[dim] - kEdge;
      Visit(dim + 1, offset + i * x_.strides[dim], fn);
    }
  }

  void Print(int dim, int64_t offset, std::string* out) {
    if (dim == x_.rank) {
      const std::string& text = texts_[next_++];
      if (x_.rank > 0) out->append(width_ - text.size(), ' ');
      *out += text;
      return;
    }
    *out += '[';
    for (int64_t i = 0; i < x_.dims[dim]; ++i) {
      if (i > 0) {
        *out += dim + 1 == x_.rank ? ", " : ",";
        if (dim + 1 < x_.rank) {
          out->append(dim + 2 < x_.rank ? 2 : 1, '\n');
          out->append(static_cast<size_t>(dim) + 1, ' ');
        }
      }
      if (Skips(dim, i)) {
        *out += "...";
        i = x_.dims[dim] - kEdge - 1;
        continue;
      }
      Print(dim + 1, offset + i * x_.strides[dim], out);
    }
    *out += ']';
  }

  const View& x_;
  const bool summarise_;
  std::vector<std::string> texts_;
  size_t next_ = 0;
  size_t width_ = 0;
};

}  // namespace

absl::StatusOr<std::string> Format(const rt::TensorImpl& x) {
  std::string type = ToString(static_cast<const TensorType&>(x));
  if (!x.device().executes()) return absl::StrCat("<no values on device ", std::string(x.device().name()), "> ", type);
  TSR_ASSIGN_OR_RETURN(const rt::Ref<rt::TensorImpl> values, OnHost(const_cast<rt::TensorImpl&>(x)));
  return absl::StrCat(Formatter(*values).Run(), x.rank > 1 ? "\n" : " ", type);
}

}  // namespace tessera::interp

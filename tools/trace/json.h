// JSON, written from left to right.
#ifndef TESSERA_TOOLS_TRACE_JSON_H_
#define TESSERA_TOOLS_TRACE_JSON_H_

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/trace/export.h"

namespace tessera::tools {

class Json {
 public:
  Json& Open(char bracket) {
    Comma();
    out_ += bracket;
    first_ = true;
    return *this;
  }
  Json& Close(char bracket) {
    out_ += bracket;
    first_ = false;
    return *this;
  }
  Json& Key(const char* key) {
    Comma();
    absl::StrAppend(&out_, "\"", key, "\":");
    first_ = true;
    return *this;
  }
  Json& TextKey(std::string_view key) {
    Text(key);
    out_ += ':';
    first_ = true;
    return *this;
  }
  Json& Text(std::string_view text) {
    Comma();
    out_ += JsonString(text);
    return *this;
  }
  Json& Number(int64_t v) {
    Comma();
    absl::StrAppend(&out_, v);
    return *this;
  }
  Json& Real(double v) {
    Comma();
    absl::StrAppend(&out_, absl::StrFormat("%.6g", std::isfinite(v) ? v : 0));
    return *this;
  }
  Json& Bool(bool v) {
    Comma();
    out_ += v ? "true" : "false";
    return *this;
  }
  std::string Take() { return std::move(out_); }

 private:
  void Comma() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  std::string out_;
  bool first_ = true;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TRACE_JSON_H_

// How the public API reports failure. Ops on tensors throw Error at the line that is wrong; everything else
// returns a Status or a Result.
#ifndef TESSERA_STATUS_H_
#define TESSERA_STATUS_H_

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "tessera/export.h"

namespace tessera {

enum class Code {
  ok = 0,
  invalid_argument,    // a wrong shape, dtype, attribute or text: the caller can mend it
  not_found,           // a file, function, buffer or option that is not there
  out_of_range,        // an index outside a tensor
  resource_exhausted,  // no memory, or a limit reached
  unsupported,         // a combination listed as unsupported
  data_loss,           // a damaged file
  internal,            // a fault of Tessera
  cancelled,           // the user interrupted it (Session::interrupt)
};

/// A code and, where it is not ok, a message that says what was asked, what was given and what would work.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// What public ops throw.
class TSR_API Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.message()), status_(std::move(status)) {}
  ~Error() override;
  const Status& status() const { return status_; }
  Code code() const { return status_.code(); }

 private:
  Status status_;
};

/// A value, or the status that says why there is none. `value()` throws Error where there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    if (!value_) throw Error(status_);
    return *value_;
  }
  T&& value() && {
    if (!value_) throw Error(status_);
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tessera

#endif  // TESSERA_STATUS_H_

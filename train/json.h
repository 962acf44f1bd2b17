// As much JSON as headers and manifests need. Objects keep their order; a key that comes twice is an error.
#ifndef TESSERA_TRAIN_JSON_H_
#define TESSERA_TRAIN_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera::train {

struct Json {
  enum class Kind { null, boolean, integer, number, string, array, object };
  Kind kind = Kind::null;
  int64_t integer = 0;  // booleans, too
  double number = 0;    // integers, too
  std::string string;
  std::vector<Json> items;        // of an array; of an object, what its keys stand for
  std::vector<std::string> keys;  // of an object

  /// Null where it is no object or has no such member.
  const Json* find(std::string_view key) const;
};

/// Bounded in depth; the message says at which byte something is wrong.
Result<Json> ParseJson(std::string_view text);
/// With quotes.
std::string Quoted(std::string_view text);

}  // namespace tessera::train

#endif  // TESSERA_TRAIN_JSON_H_

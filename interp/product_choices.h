// How often a library's kernel for a product gave way to a faster one, on any device. What was recorded before has the
// old one.
#ifndef TESSERA_INTERP_PRODUCT_CHOICES_H_
#define TESSERA_INTERP_PRODUCT_CHOICES_H_

#include <atomic>
#include <cstdint>

namespace tessera::interp {

inline constinit std::atomic<uint64_t> product_choices{0};

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_PRODUCT_CHOICES_H_

// Functions that a library which stands in has for tests.
#ifndef TESSERA_TESTS_UNIT_LIBRARIES_STAND_IN_H_
#define TESSERA_TESTS_UNIT_LIBRARIES_STAND_IN_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace tessera {

/// `library` is open already.
template <class Fn>
Fn StandIn(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  void* const symbol = handle != nullptr ? dlsym(handle, name) : nullptr;
  EXPECT_NE(symbol, nullptr) << name << ": this is another " << library;
  return reinterpret_cast<Fn>(symbol);
}

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_LIBRARIES_STAND_IN_H_

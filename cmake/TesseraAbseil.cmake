# tessera_absl: the parts of Abseil that the core uses.
#
# A distribution's Abseil is some thirty shared libraries, which cost a program two milliseconds each time it starts.
# Its archives, linked into libtessera.so and hidden there, cost nothing; but they are made for programs, and in a few of
# them thread-local variables are addressed in a way that a shared library cannot use. So, in this order:
#   archives  all of Abseil inside libtessera.so
#   mixed     all but those few, which are linked as shared libraries
#   shared    the shared libraries
# The first that links is taken, unless -DTESSERA_ABSL=... names one. Only lld is trusted to refuse such variables (GNU ld
# for arm64 links them and the program goes wrong), so without it: shared. An archive of Tessera leaves the choice to
# the program that links it.
find_package(absl REQUIRED)

set(TESSERA_ABSL_TARGETS absl::status absl::statusor absl::strings absl::str_format absl::span absl::inlined_vector
    absl::flat_hash_map absl::flat_hash_set absl::function_ref absl::hash absl::synchronization absl::time)
set(TESSERA_ABSL_TLS_TARGETS absl::base absl::cordz_functions absl::raw_hash_set)

# The exported targets name the shared libraries though the archives lie beside them: points them at the archives.
function(tessera_absl_use_archives)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  list(FILTER targets INCLUDE REGEX "^absl::")
  list(REMOVE_ITEM targets ${ARGN})
  foreach(target IN LISTS targets)
    foreach(config NONE NOCONFIG RELEASE RELWITHDEBINFO)
      get_target_property(location ${target} IMPORTED_LOCATION_${config})
      if(location MATCHES "\\.so[.0-9]*$")
        string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${config} "${archive}" IMPORTED_SONAME_${config} "")
      endif()
    endforeach()
  endforeach()
endfunction()

# Does a shared library link in that way? The trial includes this very file.
function(tessera_absl_try way result)
  set(dir ${CMAKE_BINARY_DIR}/CMakeFiles/absl_${way})
  file(WRITE ${dir}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(trial CXX)
set(CMAKE_CXX_STANDARD 20)
set(BUILD_SHARED_LIBS ON)
set(TESSERA_ABSL ${way})
include(${CMAKE_CURRENT_FUNCTION_LIST_FILE})
add_library(trial SHARED trial.cc)
set_target_properties(trial PROPERTIES CXX_VISIBILITY_PRESET hidden)
target_link_options(trial PRIVATE -fuse-ld=lld -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tessera.map
                    -Wl,--exclude-libs,ALL -Wl,-z,defs)
target_link_libraries(trial PRIVATE tessera_absl)
")
  file(WRITE ${dir}/trial.cc "#include \"absl/container/flat_hash_map.h\"
#include \"absl/status/status.h\"
#include \"absl/strings/str_format.h\"
#include \"absl/synchronization/mutex.h\"
namespace tessera {
__attribute__((visibility(\"default\"))) int Trial(int a) {
  absl::flat_hash_map<int, int> m;
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  m[a] = 1;
  return static_cast<int>(absl::InternalError(absl::StrFormat(\"%d\", m[a])).code());
}
}
")
  message(STATUS "Linking Abseil into a shared library: ${way}")
  try_compile(TESSERA_ABSL_LINKS_${way} ${dir}/build ${dir} trial)
  if(TESSERA_ABSL_LINKS_${way})
    message(STATUS "Linking Abseil into a shared library: ${way} - works")
  else()
    message(STATUS "Linking Abseil into a shared library: ${way} - does not work with these archives")
  endif()
  set(${result} ${TESSERA_ABSL_LINKS_${way}} PARENT_SCOPE)
endfunction()

if(NOT TESSERA_ABSL)
  set(way shared)
  if(BUILD_SHARED_LIBS AND TESSERA_HAVE_LLD)
    foreach(candidate archives mixed)
      tessera_absl_try(${candidate} linked)
      if(linked)
        set(way ${candidate})
        break()
      endif()
    endforeach()
  endif()
  set(TESSERA_ABSL ${way} CACHE STRING "How Abseil is linked: archives, mixed or shared")
endif()

if(TESSERA_ABSL STREQUAL "archives")
  tessera_absl_use_archives()
elseif(TESSERA_ABSL STREQUAL "mixed")
  tessera_absl_use_archives(${TESSERA_ABSL_TLS_TARGETS})
elseif(NOT TESSERA_ABSL STREQUAL "shared")
  message(FATAL_ERROR "TESSERA_ABSL=${TESSERA_ABSL}: it is archives, mixed or shared")
endif()

add_library(tessera_absl INTERFACE)
target_link_libraries(tessera_absl INTERFACE ${TESSERA_ABSL_TARGETS})

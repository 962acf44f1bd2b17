# Compiler, linker and instruction-set settings that every target of this tree shares.
#
#   tessera_common_flags(target)        warnings, language, sanitizers: programs that use the public API
#   tessera_internal_flags(target)      the same plus what the library's own code needs
#   tessera_precompiled(target header)  a header that is compiled once for all files of the target
#   tessera_shared_link_options(target) how libtessera.so is linked
#   TESSERA_SANITIZE_CALLER_FLAGS       what files that call generated code are compiled with beside that
#   TESSERA_ISAS, TESSERA_ISA_FLAGS_*   the instruction sets of the *_isa.cc files

if(PROJECT_IS_TOP_LEVEL)
  find_program(TESSERA_CCACHE ccache)
  mark_as_advanced(TESSERA_CCACHE)
  foreach(lang C CXX)
    if(TESSERA_CCACHE AND NOT CMAKE_${lang}_COMPILER_LAUNCHER)
      set(CMAKE_${lang}_COMPILER_LAUNCHER ${TESSERA_CCACHE})
    endif()
  endforeach()
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(TESSERA_ISAS neon)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(TESSERA_ISAS base avx2 avx512)
  set(TESSERA_ISA_FLAGS_avx2 -march=x86-64-v3)
  set(TESSERA_ISA_FLAGS_avx512 -march=x86-64-v4)
else()
  set(TESSERA_ISAS base)
endif()

# lld of the compiler's own version where it is installed: clang finds ld.lld beside itself.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld TESSERA_HAVE_LLD)
endif()

set(TESSERA_SANITIZE_FLAGS)
if(TESSERA_SANITIZE)
  set(TESSERA_SANITIZE_FLAGS -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer)
  if(TESSERA_SANITIZE MATCHES "undefined")
    list(APPEND TESSERA_SANITIZE_FLAGS -fno-sanitize-recover=undefined)
    # For what calls generated code: there is no type of a function before it that could be checked.
    set(TESSERA_SANITIZE_CALLER_FLAGS $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  endif()
endif()

if(TESSERA_FUZZ)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
  check_cxx_source_compiles(
    "#include <cstddef>\n#include <cstdint>
     extern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }" TESSERA_HAVE_FUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT TESSERA_HAVE_FUZZER)
    message(WARNING "TESSERA_FUZZ=ON, but ${CMAKE_CXX_COMPILER} cannot link with -fsanitize=fuzzer "
                    "(clang with its runtime package, libclang-rt-22-dev, can): the fuzz tests are left out.")
  endif()
endif()

function(tessera_common_flags target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_STANDARD 11 C_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>
                         ${TESSERA_SANITIZE_FLAGS})
  target_compile_definitions(${target} PRIVATE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
  target_link_options(${target} PRIVATE ${TESSERA_SANITIZE_FLAGS} $<$<BOOL:${TESSERA_HAVE_LLD}>:-fuse-ld=lld>)
endfunction()

function(tessera_internal_flags target)
  tessera_common_flags(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        C_VISIBILITY_PRESET hidden)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  # Contraction would make results depend on the instruction set; errno would keep sqrt and friends out of vector loops.
  target_compile_options(${target} PRIVATE -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections)
  # g++ 12 believes that a variant holding Abseil's InlinedVector reads what it has not written; clang and the memory
  # checkers do not.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(TESSERA_FUZZ AND TESSERA_HAVE_FUZZER AND TESSERA_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# Without the time of day in it, so that ccache finds what it has seen (with the sloppiness that ./dev asks of it).
function(tessera_precompiled target header)
  target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/${header}>)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# Programs start in milliseconds: no library that is not used, symbols bound when first called, a small symbol table,
# and calls inside the library that do not go through it. The version script keeps the instantiations of std templates,
# which libstdc++ marks visible, from being exported.
function(tessera_shared_link_options target)
  tessera_common_flags(${target})
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")
    return()
  endif()
  set(script ${PROJECT_SOURCE_DIR}/cmake/tessera.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--gc-sections -Wl,--as-needed -Wl,-z,lazy
                      -Wl,--hash-style=gnu -Wl,-Bsymbolic-functions -Wl,--exclude-libs,ALL)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
  if(NOT TESSERA_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

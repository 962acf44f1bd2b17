# LLVM and MLIR 22 for libtessera_compiler:
#
#   tessera_mlir                     INTERFACE target: the headers (as system headers) and the libraries
#   tessera_llvm                     the same with LLVM alone
#   tessera_compiler_flags(target)   how code of the compiler is compiled
#   TESSERA_CLANGXX22, TESSERA_LLVM_TOOLS   the clang++ that makes bitcode, and LLVM's folder of programs
#
# Link modes (TESSERA_LINK): static, the default, takes archives and keeps what is used; shared takes libMLIR.so and
# libLLVM.so, for quick links at a desk. Nothing in between: Debian's MLIR archives name the shared libLLVM in their
# link interfaces, and a process with two LLVMs in it fails in odd ways, so those interfaces are rewritten below.

set(TESSERA_LINK static CACHE STRING "How LLVM and MLIR are linked: static or shared")
set_property(CACHE TESSERA_LINK PROPERTY STRINGS static shared)
if(NOT TESSERA_LINK MATCHES "^(static|shared)$")
  message(FATAL_ERROR "TESSERA_LINK=${TESSERA_LINK}: it is static or shared")
endif()

# No version: the package's version file refuses "22" (it wants 22.1). LLVM's own checks need a C compiler, which
# project() names.
find_package(MLIR REQUIRED CONFIG PATHS ${TESSERA_LLVM_DIR}/lib/cmake/mlir NO_DEFAULT_PATH)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "LLVM ${LLVM_PACKAGE_VERSION} in ${TESSERA_LLVM_DIR}: the compiler is written for 22")
endif()
if(NOT LLVM_ENABLE_RTTI)
  message(FATAL_ERROR "LLVM in ${TESSERA_LLVM_DIR} was built without RTTI, which the compiler's classes need")
endif()
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} in ${TESSERA_LLVM_DIR}, linked ${TESSERA_LINK}")

# What runs on the build machine, also when this build is for another.
set(TESSERA_LLVM_TOOLS ${TESSERA_LLVM_DIR}/bin CACHE PATH "LLVM's programs for the build machine")
if(NOT EXISTS ${TESSERA_LLVM_TOOLS}/mlir-tblgen)
  set(TESSERA_LLVM_TOOLS /usr/lib/llvm-22/bin)
endif()
find_program(TESSERA_CLANGXX22 NAMES clang++-22 clang++ HINTS ${TESSERA_LLVM_TOOLS} NO_CMAKE_FIND_ROOT_PATH REQUIRED)
mark_as_advanced(TESSERA_CLANGXX22 TESSERA_LLVM_TOOLS)

set(TESSERA_MLIR_LIBS
    MLIRIR MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils MLIRRewrite MLIRSupport
    MLIRArithDialect MLIRControlFlowDialect MLIRFuncDialect MLIRLLVMDialect MLIRMathDialect MLIRSCFDialect
    MLIRUBDialect MLIRVectorDialect
    MLIRArithToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM MLIRIndexToLLVM MLIRReconcileUnrealizedCasts
    MLIRSCFToControlFlow MLIRUBToLLVM MLIRVectorToLLVM MLIRVectorToLLVMPass
    MLIRTargetLLVMIRExport MLIRBuiltinToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation)
set(TESSERA_LLVM_COMPONENTS core support passes orcjit target native bitreader linker NVPTXCodeGen NVPTXDesc NVPTXInfo)

add_library(tessera_llvm INTERFACE)
target_include_directories(tessera_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(tessera_llvm INTERFACE ${definitions})
target_link_libraries(tessera_llvm INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
add_library(tessera_mlir INTERFACE)
target_link_libraries(tessera_mlir INTERFACE tessera_llvm)

if(TESSERA_LINK STREQUAL "shared")
  target_link_libraries(tessera_llvm INTERFACE LLVM)
  target_link_libraries(tessera_mlir INTERFACE MLIR)
else()
  llvm_map_components_to_libnames(llvm_libs ${TESSERA_LLVM_COMPONENTS})
  target_link_libraries(tessera_llvm INTERFACE ${llvm_libs})
  # Every MLIR archive names LLVM, the shared library: the archives instead.
  add_library(tessera_llvm_archives INTERFACE)
  target_link_libraries(tessera_llvm_archives INTERFACE ${llvm_libs})
  get_property(all_mlir GLOBAL PROPERTY MLIR_ALL_LIBS)
  foreach(lib IN LISTS all_mlir)
    if(TARGET ${lib})
      get_target_property(needs ${lib} INTERFACE_LINK_LIBRARIES)
      if(needs)
        list(TRANSFORM needs REPLACE "^LLVM$" tessera_llvm_archives)
        list(REMOVE_ITEM needs MLIR)
        set_target_properties(${lib} PROPERTIES INTERFACE_LINK_LIBRARIES "${needs}")
      endif()
    endif()
  endforeach()
  # LLVMSupport names libz3.so (whose user is never linked) and the shared zlib and zstd: the archives of those two.
  find_library(TESSERA_ZSTD_ARCHIVE libzstd.a REQUIRED)
  find_library(TESSERA_ZLIB_ARCHIVE libz.a REQUIRED)
  mark_as_advanced(TESSERA_ZSTD_ARCHIVE TESSERA_ZLIB_ARCHIVE)
  get_target_property(needs LLVMSupport INTERFACE_LINK_LIBRARIES)
  list(FILTER needs EXCLUDE REGEX "z3|ZLIB|zstd")
  list(APPEND needs ${TESSERA_ZSTD_ARCHIVE} ${TESSERA_ZLIB_ARCHIVE} Threads::Threads)
  set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${needs}")
  target_link_libraries(tessera_mlir INTERFACE ${TESSERA_MLIR_LIBS})
endif()

# For everything under tiers/compiler: position independent, hidden, a section for each function, and linked with what
# drops those that nobody uses.
function(tessera_compiler_flags target)
  tessera_internal_flags(${target})
  set_target_properties(${target} PROPERTIES VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(${target} PRIVATE -Wl,--gc-sections)
  target_compile_options(${target} PRIVATE ${TESSERA_SANITIZE_CALLER_FLAGS})
  if(TESSERA_SANITIZE MATCHES "address")
    target_compile_options(${target} PRIVATE "SHELL:-include ${PROJECT_SOURCE_DIR}/tiers/compiler/sanitized.h")
  endif()
endfunction()

# The CUDA part of the core: nvcc compiles each interp/cuda/kernels/*.cu to a fatbin, and the assembler puts it into the
# library. Nothing of CUDA is linked; runtime/cuda opens its libraries at run time.
#
#   TESSERA_CUDA                 ON or OFF from here on
#   TESSERA_CUDA_INCLUDE         the toolkit's headers
#   tessera_cuda_images(target)  an object library with all images; target_shared is a shared one

if(NOT TESSERA_CUDA STREQUAL "OFF")
  find_program(TESSERA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(TESSERA_NVCC)
  set(tessera_has_cuda OFF)
  if(TESSERA_NVCC)
    file(REAL_PATH ${TESSERA_NVCC} tessera_nvcc)
    cmake_path(GET tessera_nvcc PARENT_PATH tessera_cuda_bin)
    cmake_path(GET tessera_cuda_bin PARENT_PATH tessera_cuda_home)
    set(TESSERA_CUDA_INCLUDE ${tessera_cuda_home}/include)
    if(EXISTS ${TESSERA_CUDA_INCLUDE}/cuda.h AND EXISTS ${TESSERA_CUDA_INCLUDE}/cublasLt.h)
      set(tessera_has_cuda ON)
    endif()
  endif()
  if(TESSERA_CUDA STREQUAL "AUTO")
    set(TESSERA_CUDA ${tessera_has_cuda})
    if(NOT TESSERA_CUDA)
      message(WARNING "No nvcc with cuda.h and cublasLt.h: there will be no CUDA device.")
    endif()
  elseif(NOT tessera_has_cuda)
    message(FATAL_ERROR "TESSERA_CUDA=ON, but nvcc, cuda.h or cublasLt.h is not found; set CUDA_HOME.")
  endif()
endif()

# Code for the generations that exist, from PTX that later ones compile for themselves.
set(TESSERA_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "Generations of GPUs with prebuilt kernels")
mark_as_advanced(TESSERA_CUDA_ARCHITECTURES)

function(tessera_cuda_images target)
  find_program(TESSERA_FATBIN_PYTHON python3 REQUIRED)
  list(TRANSFORM TESSERA_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE codes)
  list(JOIN codes "," codes)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/interp/cuda/kernels/*.cu)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
  set(objects)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(fatbin ${PROJECT_BINARY_DIR}/cuda/${name}.fatbin)
    set(code arch=compute_80,code=[compute_80,${codes}])
    if(name MATCHES "_hopper$")  # instructions that only sm_90a has
      set(code arch=compute_90a,code=sm_90a)
    endif()
    # Contraction is off everywhere, so that every tier gives the same bits.
    add_custom_command(
      OUTPUT ${fatbin}
      COMMAND ${TESSERA_FATBIN_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/fatbin.py ${PROJECT_SOURCE_DIR}/build/fatbins
              ${fatbin} ${source} ${TESSERA_NVCC} --compress-mode=size -std=c++20 -O3 -fmad=false
              -diag-suppress 186,177 -I${PROJECT_SOURCE_DIR} -gencode ${code}
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/fatbin.py
      DEPFILE ${fatbin}.d
      COMMENT "CUDA kernels ${name}"
      VERBATIM)
    set(assembly ${PROJECT_BINARY_DIR}/cuda/${name}.c)
    file(CONFIGURE OUTPUT ${assembly} @ONLY CONTENT
"__asm__(\".section .rodata.tessera_fatbin_@name@,\\\"a\\\"\\n\"
        \".globl tessera_fatbin_@name@\\n\"
        \".hidden tessera_fatbin_@name@\\n\"
        \".balign 64\\n\"
        \"tessera_fatbin_@name@:\\n\"
        \".incbin \\\"@fatbin@\\\"\\n\"
        \".previous\\n\");
extern const unsigned char tessera_fatbin_@name@[] __attribute__((visibility(\"hidden\")));
const unsigned char* tessera_cuda_image_@name@(void);
const unsigned char* tessera_cuda_image_@name@(void) { return tessera_fatbin_@name@; }
")
    set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${fatbin})
    list(APPEND objects ${assembly})
  endforeach()
  add_library(${target} OBJECT ${objects})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # The same as a library, for programs that hold the core itself: so it is on the disk once.
  add_library(${target}_shared SHARED $<TARGET_OBJECTS:${target}>)
  set_target_properties(${target}_shared PROPERTIES LINKER_LANGUAGE C)
endfunction()

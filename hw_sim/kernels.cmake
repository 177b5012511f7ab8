# SPDX-License-Identifier: Apache-2.0
# Flags of the vector kernels, per file: the rest of the library runs on any host, and asks the CPU before it calls them.
include(CheckCXXCompilerFlag)
# psabi: vectors are passed between functions of one file only. maybe-uninitialized: gcc 12 warns inside its own header of intrinsics.
set(LOADSTONE_KERNEL_OPTIMIZATION -O3 CACHE STRING "of the vector kernels; tests compile them sooner")
set(LDS_LANES "${LOADSTONE_KERNEL_OPTIMIZATION};-fno-math-errno;-fno-trapping-math;-ffp-contract=off;-Wno-psabi")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND LDS_LANES -Wno-maybe-uninitialized)
endif()
set_source_files_properties(hw_sim/kernels_portable.cc PROPERTIES COMPILE_OPTIONS "${LDS_LANES}")
set(CMAKE_REQUIRED_FLAGS -Werror) # clang for another processor only warns of flags that it does not use
check_cxx_compiler_flag(-mavx2 LDS_HAS_AVX2)
check_cxx_compiler_flag("-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni" LDS_HAS_AVX512)
check_cxx_compiler_flag(-march=armv8.2-a+dotprod LDS_HAS_DOTPROD)
set(LDS_DOTPROD -march=armv8.2-a+dotprod)
if(NOT LDS_HAS_DOTPROD) # zig knows processors by -mcpu alone, and by names of its own
  check_cxx_compiler_flag(-mcpu=generic+v8_2a+dotprod LDS_HAS_DOTPROD_OF_ZIG)
  set(LDS_DOTPROD -mcpu=generic+v8_2a+dotprod)
endif()
unset(CMAKE_REQUIRED_FLAGS)
if(LDS_HAS_AVX2)
  set_source_files_properties(hw_sim/kernels_avx2.cc PROPERTIES COMPILE_OPTIONS "${LDS_LANES};-mavx2")
endif()
if(LDS_HAS_AVX512)
  set_source_files_properties(hw_sim/kernels_avx512.cc PROPERTIES COMPILE_OPTIONS
                                                                 "${LDS_LANES};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mprefer-vector-width=512")
endif()
if(LDS_HAS_DOTPROD OR LDS_HAS_DOTPROD_OF_ZIG)
  set_source_files_properties(hw_sim/kernels_neon.cc PROPERTIES COMPILE_OPTIONS "${LDS_LANES};${LDS_DOTPROD}")
endif()

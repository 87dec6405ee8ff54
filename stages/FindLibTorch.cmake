# Finds the LibTorch of the `torch` wheel: RETORT_LIBTORCH names the folder that holds torch/ and nvidia/ (or is the
# torch/ folder itself). find_package(Torch) of the wheel fails with CMake 3.25 and CUDA 13, hence our own.
#
#   LibTorch::LibTorch    libtorch_cpu, libc10 and the headers; libtorch_cuda too where LIBTORCH_CUDA is true
#   LIBTORCH_VERSION, LIBTORCH_CUDA_VERSION   texts for --version
set(RETORT_LIBTORCH "$ENV{RETORT_LIBTORCH}" CACHE PATH "Folder with the unpacked torch wheel")
if(NOT RETORT_LIBTORCH)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  foreach(part cuda cpu)
    if(NOT RETORT_LIBTORCH AND EXISTS ${cache}/retort/libtorch-2.11.0-${part}/torch)
      set(RETORT_LIBTORCH ${cache}/retort/libtorch-2.11.0-${part} CACHE PATH "" FORCE)
    endif()
  endforeach()
endif()
set(root ${RETORT_LIBTORCH})
if(EXISTS ${root}/include/torch/csrc/api/include AND NOT EXISTS ${root}/torch/include)
  cmake_path(GET root PARENT_PATH root)
endif()
if(NOT EXISTS ${root}/torch/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch not found in '${RETORT_LIBTORCH}': run scripts/setup, or set RETORT_LIBTORCH")
endif()

file(STRINGS ${root}/torch/include/torch/headeronly/version.h version REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
list(TRANSFORM version REPLACE "[^0-9]" "")
list(JOIN version "." LIBTORCH_VERSION)
# The CPU's part of the wheels holds libtorch_cuda.so as well, but not what it needs.
set(LIBTORCH_CUDA OFF)
if(EXISTS ${root}/nvidia/cudnn/lib/libcudnn.so.9)
  set(LIBTORCH_CUDA ON)
endif()

set(LIBTORCH_CUDA_VERSION "none: LibTorch's CUDA part is not installed")
if(LIBTORCH_CUDA)
  file(STRINGS ${root}/nvidia/cu13/include/cuda_runtime_api.h version REGEX "define CUDART_VERSION ")
  string(REGEX MATCH "[0-9]+$" version "${version}")
  math(EXPR major "${version} / 1000")
  math(EXPR minor "${version} % 1000 / 10")
  set(LIBTORCH_CUDA_VERSION ${major}.${minor})
endif()

foreach(library torch_cpu c10 torch_cuda c10_cuda)
  add_library(LibTorch::${library} SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::${library} PROPERTIES IMPORTED_LOCATION ${root}/torch/lib/lib${library}.so
                                                        IMPORTED_NO_SONAME FALSE)
endforeach()
add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${root}/torch/include
                           ${root}/torch/include/torch/csrc/api/include ${root}/nvidia/cu13/include)
target_compile_definitions(LibTorch::LibTorch INTERFACE NDEBUG _GLIBCXX_USE_CXX11_ABI=1)
# libtorch_cpu finds its own CUDA runtime by its RPATH; we do not link it.
target_link_options(LibTorch::LibTorch INTERFACE -Wl,--allow-shlib-undefined)
target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::torch_cpu LibTorch::c10)
if(LIBTORCH_CUDA)
  target_link_libraries(LibTorch::LibTorch INTERFACE -Wl,--no-as-needed LibTorch::torch_cuda LibTorch::c10_cuda -Wl,--as-needed)
  target_compile_definitions(LibTorch::LibTorch INTERFACE RETORT_LIBTORCH_CUDA)
endif()
message(STATUS "LibTorch ${LIBTORCH_VERSION} in ${root} (CUDA: ${LIBTORCH_CUDA})")

# Finds the LibTorch of the `torch` wheel in RETORT_LIBTORCH, the folder that contains torch/ and nvidia/ (or the
# torch/ folder itself); by default, in the cache folder where scripts/setup puts it. The wheel's own
# find_package(Torch) fails with CMake 3.25 and CUDA 13.
#
#   LibTorch::LibTorch    libtorch_cpu, libc10 and the headers; also libtorch_cuda if LIBTORCH_CUDA is true
#   LIBTORCH_LIBRARY_DIR  the folder of these libraries
#   LIBTORCH_VERSION, LIBTORCH_CUDA_VERSION   texts for --version
#   LIBTORCH_REQUIREMENT  what to install in Python, such as torch==2.11.*
set(RETORT_LIBTORCH "$ENV{RETORT_LIBTORCH}" CACHE PATH "Folder with the unpacked torch wheel; empty: the one in the cache")
set(root ${RETORT_LIBTORCH})
if(NOT root)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  set(version "$ENV{RETORT_TORCH_VERSION}")
  if(NOT version)
    file(STRINGS ${CMAKE_SOURCE_DIR}/scripts/libtorch/version version)
  endif()
  foreach(part cpu cuda)
    if(EXISTS ${cache}/retort/libtorch-${version}-${part}/torch)
      set(root ${cache}/retort/libtorch-${version}-${part})
    endif()
  endforeach()
endif()
if(EXISTS ${root}/include/torch/csrc/api/include AND NOT EXISTS ${root}/torch/include)
  cmake_path(GET root PARENT_PATH root)
endif()
set(LIBTORCH_LIBRARY_DIR ${root}/torch/lib)
if(NOT EXISTS ${LIBTORCH_LIBRARY_DIR}/libtorch_cpu.so OR NOT EXISTS ${root}/torch/include/torch/headeronly/version.h)
  message(FATAL_ERROR "LibTorch not found in '${root}': run scripts/setup, or set RETORT_LIBTORCH")
endif()

file(STRINGS ${root}/torch/include/torch/headeronly/version.h version REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
list(TRANSFORM version REPLACE "[^0-9]" "")
list(JOIN version "." LIBTORCH_VERSION)
string(REGEX REPLACE "[0-9]+$" "*" LIBTORCH_REQUIREMENT "torch==${LIBTORCH_VERSION}")

# libtorch_cuda works only if everything that it loads exists: without a GPU driver, scripts/setup omits most of it.
set(LIBTORCH_CUDA ON)
set(missing "")
foreach(library c10_cuda torch_cuda torch_cuda_linalg)
  if(NOT EXISTS ${LIBTORCH_LIBRARY_DIR}/lib${library}.so)
    list(APPEND missing lib${library}.so)
    continue()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ldd ${LIBTORCH_LIBRARY_DIR}/lib${library}.so
                  OUTPUT_VARIABLE loaded ERROR_VARIABLE loaded)
  string(REGEX MATCHALL "[A-Za-z0-9_.-]+ => not found" unresolved "${loaded}")
  list(TRANSFORM unresolved REPLACE " => not found" "")
  list(APPEND missing ${unresolved})
endforeach()
if(missing)
  set(LIBTORCH_CUDA OFF)
  list(REMOVE_DUPLICATES missing)
  list(JOIN missing ", " missing)
endif()

set(LIBTORCH_CUDA_VERSION "none: the worker was built without CUDA support")
if(LIBTORCH_CUDA)
  file(STRINGS ${root}/nvidia/cu13/include/cuda_runtime_api.h version REGEX "define CUDART_VERSION ")
  string(REGEX MATCH "[0-9]+$" version "${version}")
  math(EXPR major "${version} / 1000")
  math(EXPR minor "${version} % 1000 / 10")
  set(LIBTORCH_CUDA_VERSION ${major}.${minor})
endif()

foreach(library torch_cpu c10)
  add_library(LibTorch::${library} SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::${library} PROPERTIES IMPORTED_LOCATION ${LIBTORCH_LIBRARY_DIR}/lib${library}.so
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
  # Its kernels register themselves when it is loaded. Nothing references it, so the linker must not drop it.
  target_link_libraries(
    LibTorch::LibTorch
    INTERFACE "-Wl,--no-as-needed,\"${LIBTORCH_LIBRARY_DIR}/libtorch_cuda.so\",\"${LIBTORCH_LIBRARY_DIR}/libc10_cuda.so\",--as-needed"
  )
  target_compile_definitions(LibTorch::LibTorch INTERFACE RETORT_LIBTORCH_CUDA)
  message(STATUS "LibTorch ${LIBTORCH_VERSION} with CUDA ${LIBTORCH_CUDA_VERSION} in ${root}")
else()
  message(STATUS "LibTorch ${LIBTORCH_VERSION} in ${root}, without CUDA support: it lacks ${missing}")
endif()

#include "stages/numerics/tf32.h"

#include <torch/types.h>

namespace stages {

ScopedTf32::ScopedTf32(bool allow)
    : products_(at::globalContext().allowTF32CuBLAS()), convolutions_(at::globalContext().allowTF32CuDNN()) {
  at::globalContext().setAllowTF32CuBLAS(allow);
  at::globalContext().setAllowTF32CuDNN(allow);
}

ScopedTf32::~ScopedTf32() {
  at::globalContext().setAllowTF32CuBLAS(products_);
  at::globalContext().setAllowTF32CuDNN(convolutions_);
}

}  // namespace stages

#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/train/optimizer_options.h"

namespace stages {

/// The optimizer's state for one parameter. Tensors that its rule does not need are undefined.
struct ParameterState {
  at::Tensor momentum;               ///< SGD, Muon
  at::Tensor mean, square, maximum;  ///< Adam, LAMB: first and second moment, the largest second
                                     ///< moment; Lion: mean; Adafactor: square, of vectors
  at::Tensor row, column;            ///< Adafactor: the second moment's rows and columns
  at::Tensor age;                    ///< number of steps, as a float32 where the kernels read it
};

/// One tensor of the state, with its name in checkpoints.
struct StatePart {
  const char* name;
  at::Tensor ParameterState::*tensor;

  bool is_age() const { return tensor == &ParameterState::age; }
};

/// Returns the tensors that the rule needs for this parameter. `is_matrix`: Muon orthogonalizes its
/// updates.
std::vector<StatePart> state_parts(const OptimizerOptions& rule, const at::Tensor& parameter,
                                   bool is_matrix);

/// Returns the shape and the type of a part. Parts with the parameter's shape also have its layout.
std::vector<std::int64_t> sizes_of(const StatePart& part, const at::Tensor& parameter);
at::ScalarType type_of(const StatePart& part, const at::Tensor& parameter);

}  // namespace stages

#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/train/block_parts.h"
#include "stages/train/optimizer_options.h"

namespace stages {

/// The optimizer's state for one parameter. Tensors that its rule does not need are undefined.
struct ParameterState {
  at::Tensor momentum;               ///< SGD, Muon
  at::Tensor mean, square, maximum;  ///< Adam, LAMB: first, second and largest second moment; Lion:
                                     ///< mean; Adafactor: square, of vectors
  at::Tensor row, column;            ///< Adafactor: the second moment's rows and columns
  at::Tensor momentum_absmax, mean_absmax, square_absmax;  ///< of quantized moments
  at::Tensor age;  ///< number of steps, a float32 stored where the kernels read it
};

/// What a tensor of the state contains: a moment in the parameter's type, the codes or the largest
/// absolute values of a quantized moment (block_quantizer.h), or the number of steps.
enum class StateForm { kMoment, kCodes, kAbsmax, kAge };

/// One tensor of the state, with its name in checkpoints.
struct StatePart {
  const char* name;
  at::Tensor ParameterState::*tensor;
  StateForm form = StateForm::kMoment;

  bool is_age() const { return form == StateForm::kAge; }
};

/// A moment that may be quantized. Gradients can have either sign; their squares are never
/// negative.
struct QuantizedMoment {
  at::Tensor ParameterState::*moment;
  at::Tensor ParameterState::*absmax;
  const char* absmax_name;  ///< in checkpoints
  bool is_signed;
};

/// True if the moments of this parameter are quantized: the rule has 8-bit state, and the parameter
/// is dense and has at least kSmallestQuantized elements.
bool is_quantized(const OptimizerOptions& rule, const at::Tensor& parameter);

/// Returns the tensors that the rule needs for this parameter. `is_matrix` is true if Muon
/// orthogonalizes its updates.
std::vector<StatePart> state_parts(const OptimizerOptions& rule, const at::Tensor& parameter,
                                   bool is_matrix);

/// Returns the moments for which `parts` contains codes.
std::vector<QuantizedMoment> quantized_moments(const std::vector<StatePart>& parts);

/// Returns the shape, type and layout of a part. Moments with the parameter's shape also have its
/// layout; codes are contiguous.
BlockPart memory_of(const StatePart& part, const at::Tensor& parameter);

}  // namespace stages

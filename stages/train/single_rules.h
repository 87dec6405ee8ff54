#pragma once

#include <optional>
#include <vector>

#include "stages/train/optimizer_options.h"
#include "stages/train/optimizer_state.h"
#include "stages/train/rule_scratch.h"

namespace stages {

/// A step for one parameter, under a rule for which LibTorch has no fused kernel. It does not wait
/// for a GPU and allocates nothing: `scratch` is its only memory. If the step is skipped, the
/// gradient is zero, and nothing changes.
struct SingleStep {
  at::Tensor parameter, gradient;
  ParameterState& state;
  double learning_rate;
  std::optional<double> momentum;  ///< replaces the first beta or the momentum
  const StepScalars& scalars;
  std::vector<at::Tensor> scratch;  ///< parts_within(block, scratch_of(rule, parameter, is_matrix))
};

/// True for the rules that step_singly() supports, and for Muon's matrices.
bool steps_singly(const OptimizerOptions& rule, bool is_matrix);

/// Returns the scratch parts that a step for this parameter needs; none for rules with fused
/// kernels.
std::vector<BlockPart> scratch_of(const OptimizerOptions& rule, const at::Tensor& parameter,
                                  bool is_matrix);

/// Updates the parameter and its state.
void step_singly(const LionOptions& rule, const SingleStep& one);
void step_singly(const LambOptions& rule, const SingleStep& one);
void step_singly(const AdafactorOptions& rule, const SingleStep& one);
/// Updates a matrix; a tensor with more dimensions counts as a matrix with one row for each index
/// of the first dimension.
void step_singly(const MuonOptions& rule, const SingleStep& one);

}  // namespace stages

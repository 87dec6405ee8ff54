#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/train/optimizer_options.h"

namespace stages {

struct ParameterGroup;

/// True if Muon orthogonalizes the updates of the parameter with this dotted name: a tensor with
/// two or more dimensions that belongs to no head or embedding and matches nothing in
/// rule.adamw_for.
bool is_muon_matrix(const MuonOptions& rule, std::string_view name, const at::Tensor& parameter);

/// Returns the update rule for parameters that Muon does not orthogonalize.
AdamOptions adamw_of(const MuonOptions& rule);

/// Throws runner::StageError if the groups' optimizer is Muon and there is no matrix to
/// orthogonalize, or a pattern of adamw_for matches no parameter.
void check_muon(const std::vector<ParameterGroup>& groups);

}  // namespace stages

#pragma once

#include <filesystem>
#include <string>

#include "stages/tensor/named_tensors.h"
#include "tests/parity/recorded_case.h"

/// "timm:vit_base_patch16_224" taken apart; empty where a case names no model.
struct FullModel {
  std::string library, name;
};

FullModel full_model(const RecordedCase& recorded);

/// The library's tensors by the case's rule, each by the number of its line in keys/; in float32.
/// Integers and what a text tower has are left out. The keys are beside the case, else those that
/// are shared.
stages::NamedTensors formula_weights(const RecordedCase& recorded);

/// Compares shape, norm, mean and first numbers with what the case has recorded of a tensor.
void expect_recorded(const nlohmann::json& expected, const at::Tensor& actual,
                     const std::string& name);

#pragma once

#include <filesystem>
#include <string>

#include "stages/tensor/named_tensors.h"
#include "tests/parity/recorded_case.h"

/// The parts of a name such as "timm:vit_base_patch16_224"; empty if the case names no model.
struct FullModel {
  std::string library, name;
};

FullModel full_model(const RecordedCase& recorded);

/// The library's tensors in float32, computed with the case's rule from the line number of each
/// name in keys/. Integer tensors and text towers are left out. The keys are next to the case, or
/// else the shared ones.
stages::NamedTensors formula_weights(const RecordedCase& recorded);

/// Compares the shape, norm, mean and first values of a tensor with those recorded by the case.
void expect_recorded(const nlohmann::json& expected, const at::Tensor& actual,
                     const std::string& name);

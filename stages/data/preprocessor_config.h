#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/data/image_dataset.h"

namespace stages {

/// Returns the preprocessor_config.json with which transformers' AutoImageProcessor produces the
/// same pixels as `options` in evaluation; with its "pil" backend, bit for bit.
nlohmann::ordered_json preprocessor_config(const ImageDatasetOptions& options);

/// Reads a preprocessor_config.json of any transformers version: sizes may be numbers or mappings.
/// For unsupported values, throws std::invalid_argument with a clause: "its 'resample' is 1, …".
ImageDatasetOptions options_of_preprocessor(const nlohmann::json& config);

/// Returns `options` in timm's form, as members of a model's pretrained_cfg.
nlohmann::ordered_json timm_preprocessing(const ImageDatasetOptions& options);

/// Returns a sentence for each setting of `options` that neither format can express.
std::vector<std::string> lost_in_preprocessor(const ImageDatasetOptions& options);

}  // namespace stages

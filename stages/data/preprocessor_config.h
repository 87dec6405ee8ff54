#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/data/image_dataset.h"

namespace stages {

/// The preprocessor_config.json with which transformers' AutoImageProcessor makes the same pixels
/// as `options` do in evaluation; with its backend "pil", bit for bit.
nlohmann::ordered_json preprocessor_config(const ImageDatasetOptions& options);

/// Reads such a file, from any version of transformers: sizes may be numbers or mappings. Throws
/// std::invalid_argument, in half a sentence, for what is not supported: "its 'resample' is 1, …".
ImageDatasetOptions options_of_preprocessor(const nlohmann::json& config);

/// The same in timm's form: members of a model's pretrained_cfg.
nlohmann::ordered_json timm_preprocessing(const ImageDatasetOptions& options);

/// What of `options` neither format can express, a sentence each.
std::vector<std::string> lost_in_preprocessor(const ImageDatasetOptions& options);

}  // namespace stages

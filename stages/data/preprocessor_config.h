#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/data/image_dataset.h"

namespace stages {

/// The preprocessor_config.json with which transformers' AutoImageProcessor makes the same pixels of a picture as
/// `options` do in evaluation; with its backend "pil", bit for bit.
nlohmann::ordered_json preprocessor_config(const ImageDatasetOptions& options);

/// The same as timm writes it: members of a model's pretrained_cfg.
nlohmann::ordered_json timm_preprocessing(const ImageDatasetOptions& options);

/// What of `options` neither of them can say, a sentence each.
std::vector<std::string> lost_in_preprocessor(const ImageDatasetOptions& options);

}  // namespace stages

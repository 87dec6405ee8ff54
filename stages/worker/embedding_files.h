#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/worker/requests.h"

namespace stages {

/// The embeddings of images. Images that cannot be read are left out.
struct EmbeddedImages {
  std::vector<std::string> names = {};  ///< the file of each row
  at::Tensor rows = {};                 ///< (n, width) float32 on the CPU; undefined if n is 0
  std::int64_t failed = 0;              ///< number of images that could not be read
};

/// Criteria for similar images.
struct LikenessOptions {
  std::int64_t neighbors = 1;  ///< number of nearest images to examine, 1 or more
  double similarity = 1;       ///< minimum cosine similarity of near-duplicates
};

/// Writes the folder `out` and returns the answer described in embed.h, without "weights".
/// `queries` are the images to look for, and may be empty. If an error occurs, nothing is left
/// behind. Throws WriteError if the folder exists (kFolderExists) or the disk is full, and
/// runner::Canceled.
nlohmann::ordered_json write_embeddings(const EmbeddedImages& images, const EmbeddedImages& queries,
                                        const LikenessOptions& options,
                                        const std::filesystem::path& out,
                                        const RequestContext& context);

}  // namespace stages

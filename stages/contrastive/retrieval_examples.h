#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/dataset.h"
#include "stages/contrastive/evaluate_retrieval.h"

namespace stages {

/// The images and texts that a retrieval evaluation has compared. Embeddings are normalized, on the
/// CPU, and of the same type.
struct RetrievedPairs {
  std::vector<std::string> names;     ///< the name of each image's sample
  at::Tensor images;                  ///< (n, width)
  at::Tensor texts;                   ///< (m, width)
  std::vector<std::string> captions;  ///< the m texts
  std::vector<std::int64_t> text_of;  ///< (n) index of each image's own text
};

/// Writes example images of a retrieval (write_examples()): up to `count` of the images that rank
/// their own caption lowest, and up to `count` of those that rank it first, by decreasing cosine.
/// Their facts are "caption", "rank" (starting at 1) and "nearest", the three captions with the
/// largest cosines. Writes nothing if `count` is 0.
void write_retrieval_examples(const RetrievedPairs& pairs, const RetrievalRanks& ranks,
                              const Dataset& dataset, std::int64_t count,
                              const std::filesystem::path& folder);

/// Writes similarity.json to `folder`: {"captions": […], "cosines": [[…]]}, the mean cosine between
/// the images of a caption (row) and a text (column), for up to 20 captions, evenly spaced. Throws
/// WriteError.
void write_similarity(const RetrievedPairs& pairs, const std::filesystem::path& folder);

}  // namespace stages

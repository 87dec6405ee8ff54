#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

class EpisodeSet;

/// Writes example images (write_examples()) of the episode with the lowest accuracy, the first if
/// there are several: up to `count` of its wrong queries and of its correct ones, the most
/// confident first, and up to `count` of its support images. The support images are divided evenly
/// among the classes; classes that the wrong queries belong to, or are mistaken for, come first.
/// The facts of a query are "label", "predicted" and "probability"; those of a support image are
/// "support_of". `logits` and `labels` are as for episode_metrics(), which computes `accuracies`.
/// Writes nothing if `count` is 0.
void write_episode_examples(const at::Tensor& logits, const at::Tensor& labels,
                            const std::vector<double>& accuracies, const EpisodeSet& episodes,
                            std::int64_t count, const std::filesystem::path& folder);

}  // namespace stages

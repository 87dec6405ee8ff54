#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace runner {
class ConfigReader;
}

namespace stages {

/// Reads the `templates` option and reports templates without {name} as errors of `reader`.
std::vector<std::string> read_templates(runner::ConfigReader& reader);

/// Returns the filled templates of every class, grouped by class. `names` are the class names as
/// used in texts.
std::vector<std::string> texts_of_classes(const std::vector<std::string>& names,
                                          const std::vector<std::string>& templates);

/// Returns one embedding of length 1 per class, in a tensor of shape (classes, width) in float32 or
/// wider: the mean of the embeddings of its `templates` texts, as in CLIP (Radford et al. 2021,
/// arXiv:2103.00020, section 3.1.4). `texts` (classes * templates, width) are grouped by class.
at::Tensor class_embeddings(const at::Tensor& texts, std::int64_t templates);

}  // namespace stages

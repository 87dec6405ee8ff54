#include "stages/worker/support_examples.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include <torch/types.h>

#include "stages/data/images_to_predict.h"

namespace stages {
namespace {

using runner::Diagnostic;
using runner::ErrorCode;
namespace fs = std::filesystem;

/// Returns the images of each class, by class name. Images outside class folders have an empty
/// class name.
std::map<std::string, std::vector<std::string>> by_class(const std::string& folder,
                                                         const std::vector<std::string>& files) {
  std::map<std::string, std::vector<std::string>> result;
  for (const std::string& file : files) {
    const fs::path inside = fs::path(file).lexically_relative(folder);
    const bool is_of_class = std::distance(inside.begin(), inside.end()) > 1;
    result[is_of_class ? inside.begin()->string() : ""].push_back(file);
  }
  return result;
}

}  // namespace

Batch SupportExamples::asked_about(const Batch& queries) const {
  const at::Tensor& asked = queries["image"];
  const auto ways = std::ssize(classes_);
  const at::TensorOptions whole = at::TensorOptions(at::kLong).device(asked.device());
  const at::Tensor support =
      torch::arange(ways, whole).unsqueeze(1).expand({ways, shots_}).contiguous();
  return {{{"image", torch::cat({images_.to(asked.device()), asked}).unsqueeze(0)},
           {"support", support.unsqueeze(0)},
           {"label", torch::zeros({1, asked.size(0)}, whole)}},
          1};
}

runner::Result<SupportExamples> read_support(const std::string& folder, const EpisodeShape& trained,
                                             const ImageDatasetOptions& transform,
                                             const std::function<void(std::string_view)>& say) {
  auto found = list_images({folder});
  if (!found) return found.errors();
  const auto classes = by_class(folder, found->files);
  if (classes.contains("")) {
    return Diagnostic{
        ErrorCode::kUsage,
        {},
        "",
        "'" + classes.at("").front() + "' is not in a class folder",
        "put the examples of each class into a folder of that name in '" + folder + "'"};
  }
  if (classes.size() < 2) {
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "'" + folder + "' has examples of only one class",
                      "provide examples of two or more classes, each in a folder with its name"};
  }
  std::int64_t shots = trained.shots;
  for (const auto& [name, files] : classes) shots = std::min(shots, std::ssize(files));

  std::vector<std::string> taken, names;
  std::int64_t left_out = 0;
  for (const auto& [name, files] : classes) {
    names.push_back(name);
    taken.insert(taken.end(), files.begin(), files.begin() + shots);
    left_out += std::ssize(files) - shots;
  }
  say(std::to_string(classes.size()) + " classes with " + std::to_string(shots) + " examples each" +
      (left_out > 0 ? "; " + std::to_string(left_out) + " more examples are not used" : ""));
  const ImagesToPredict pictures(taken, transform, /*skip=*/false);
  std::vector<at::Tensor> images;
  for (std::int64_t index = 0; index < std::ssize(taken); ++index)
    images.push_back(pictures.sample(/*epoch=*/0, index)->at("image"));
  return SupportExamples(torch::stack(images), std::move(names), shots);
}

}  // namespace stages

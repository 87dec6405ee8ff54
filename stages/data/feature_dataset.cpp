#include "stages/data/feature_dataset.h"

#include <torch/types.h>

namespace stages {

FeatureDataset::FeatureDataset(std::shared_ptr<const Dataset> source, FeatureTable table)
    : source_(std::move(source)), table_(std::move(table)) {
  auto images = std::make_shared<DatasetDescription>(source_->describe());
  description_ = {.size = images->size,
                  .tensors = {{"features", table_.tensors.at("features").sizes().slice(1).vec(), at::kFloat}},
                  .classes = images->classes,
                  .transform = images->transform,
                  .captions = images->captions,
                  .class_words = images->class_words};
  for (const TensorSpec& spec : kept_beside_features(*images)) description_.tensors.push_back(spec);
  description_.source = std::move(images);
}

std::optional<NamedTensors> FeatureDataset::sample(std::int64_t /*epoch*/, std::int64_t index) const {
  const std::int64_t row = index % table_.present.size(0);
  if (!table_.present.const_data_ptr<bool>()[row]) return std::nullopt;
  NamedTensors sample;
  for (const auto& [name, tensor] : table_.tensors) {
    sample.set(name, name == "features" ? tensor[row].to(at::kFloat) : tensor[row]);
  }
  return sample;
}

runner::HeldMemory FeatureDataset::held() const {
  std::size_t bytes = table_.present.nbytes();
  for (const auto& [name, tensor] : table_.tensors) bytes += tensor.nbytes();
  return {.on_host = static_cast<std::int64_t>(bytes)};
}

LoaderOptions FeatureDataset::loader() const {
  LoaderOptions options = source_->loader();
  options.workers = 0;
  return options;
}

}  // namespace stages

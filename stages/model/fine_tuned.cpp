#include "stages/model/fine_tuned.h"

#include <stdexcept>

#include <torch/torch.h>

#include "runner/stage.h"
#include "stages/model/image_size.h"
#include "stages/model/pretrained.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

bool is_of_head(std::string_view weight) { return weight.starts_with("head."); }

FineTunedClassifier& as_classifier(torch::nn::Module& network) {
  auto* classifier = dynamic_cast<FineTunedClassifier*>(&network);
  if (!classifier) throw std::logic_error("not a network that FineTuned::build() has made");
  return *classifier;
}

}  // namespace

void FineTunedClassifier::freeze(std::string base) {
  base_ = std::move(base);
  base_weights_.clear();
  for (const auto& item : named_parameters()) {
    if (!item.value().requires_grad()) base_weights_.insert(item.key());
  }
}

void FineTuned::load_base(FineTunedClassifier& network) const {
  if (!saved_) {
    initialize(network, config_.backbone.initializer(), base_seed_);
    network.notes.push_back("the backbone has random weights");
    return;
  }
  const std::string reference = *config_.backbone.weights;
  PretrainedReport report;
  try {
    report = load_pretrained(network, saved_->tensors, config_.backbone.position_resize);
  } catch (const StageError& error) {
    throw StageError(error.code, "/weights", "'" + reference + "': " + error.what(), error.help, config_.backbone.pointer);
  }
  if (!report.fits()) {
    throw StageError(ErrorCode::kDamagedWeights, "/weights",
                     "the weights '" + reference + "' do not fit the backbone: " + report.misfits(),
                     "give weights of a model of this shape, or the backbone the shape of these",
                     config_.backbone.pointer);
  }
  network.notes.push_back("'" + reference + "': " + report.text());
}

std::string FineTuned::base_text(const FineTunedClassifier& network) const {
  const std::string of_type = std::string(" as ") + c10::toString(config_.backbone.dtype);
  if (!saved_) return "random, seed " + std::to_string(base_seed_) + of_type;
  const auto positions = network.named_parameters()["vision_model.embeddings.position_embedding.weight"].size(0);
  return "sha256 " + saved_->sha256 + of_type + ", " + std::to_string(positions) + " positions";
}

std::shared_ptr<torch::nn::Module> FineTuned::build(const DatasetDescription& data, std::uint64_t seed) const {
  const std::int64_t classes = fitting_classes(data, config_.num_classes, config_.pointer);
  const auto network = std::make_shared<FineTunedClassifier>(classifier_on(config_.backbone, data, classes));
  load_base(*network);
  initialize(*network, config_.backbone.initializer(), seed, is_of_head);
  for (const auto& item : network->named_parameters()) item.value().requires_grad_(is_of_head(item.key()));
  network->freeze(base_text(*network));
  return network;
}

NamedTensors FineTuned::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  const FineTunedClassifier& classifier = as_classifier(network);
  if (!inputs.contains("features")) return classifier.forward(inputs.at("image"));
  const at::Tensor& features = inputs.at("features");
  return {{"logits", classifier.classify(features)}, {"features", features}};
}

std::vector<std::string> FineTuned::notes(const torch::nn::Module& network) const {
  const auto* classifier = dynamic_cast<const FineTunedClassifier*>(&network);
  return classifier ? classifier->notes : std::vector<std::string>();
}

}  // namespace stages

#include "stages/model/convolutional_classifier_stage.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

using runner::StageError;

class ConvolutionalClassifierStage : public runner::Stage {
 public:
  explicit ConvolutionalClassifierStage(ConvolutionalClassifierConfig config) : config_(std::move(config)) {}

  std::string fingerprint() const override {
    if (!config_.weights) return "";
    if (!sha256_) sha256_ = weights_sha256(*config_.weights);
    return *sha256_;
  }
  /// Random weights are the training's.
  bool uses_seed() const override { return false; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    auto model = std::make_shared<ConvolutionalClassifier>(config_, shapes_of_weights());
    model->check_weights();
    return {{"model", std::move(model)}};
  }

 private:
  /// null: there are none.
  std::shared_ptr<const SavedWeights> shapes_of_weights() const {
    if (!config_.weights) return nullptr;
    try {
      auto saved = std::make_shared<SavedWeights>(
          read_saved_weights(*config_.weights, WeightContents::kShapes, config_.weights_entry));
      saved->sha256 = fingerprint();
      return saved;
    } catch (const StageError& error) {
      throw StageError(error.code, error.what()).at("/weights").in_stage(config_.pointer).with_help(error.help);
    }
  }

  const ConvolutionalClassifierConfig config_;
  mutable std::optional<std::string> sha256_;  // of the weights, which are read for it once
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> convolutional_classifier_stage(runner::ConfigReader& reader,
                                                                              ConvolutionalClassifierConfig config) {
  config.pointer = reader.pointer();
  reader.read("weights", config.weights);
  reader.read("weights_entry", config.weights_entry);
  if (config.weights) {
    try {
      find_weights(*config.weights);
    } catch (const StageError& error) {
      reader.fail("weights", error.code, error.what(), error.help);
    }
  }
  runner::read_or_auto(reader, "num_classes", config.num_classes);
  runner::ConfigReader& head = reader.section("head");
  head.read("widths", config.head.widths);
  head.read("dropout", config.head.dropout);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<ConvolutionalClassifierStage>(std::move(config)));
}

}  // namespace stages

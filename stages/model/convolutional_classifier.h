#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/model/classifier_head.h"
#include "stages/model/convolutional_backbone.h"
#include "stages/model/initializer.h"
#include "stages/weights/saved_weights.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// The options shared by model.se_resnext, model.cnn and, for convolutional backbones, model.full.
struct ConvolutionalClassifierConfig {
  std::string pointer;  ///< location of the model's options in the recipe, "/model"
  std::string name;     ///< the backbone's name in messages: "SE-ResNeXt", "densenet121"
  ConvolutionalBackbone backbone;
  std::optional<std::string> weights;  ///< reference to the weights (saved_weights.h); nullopt:
                                       ///< random weights
  std::optional<std::string> weights_entry;  ///< the weights to read if the file has several
  std::string weights_option = "/weights";   ///< the `weights` option, below `pointer`
  std::vector<std::string> frozen;           ///< paths of the backbone's frozen modules
  std::optional<std::int64_t> num_classes;   ///< nullopt: the number of classes in the data
  ClassifierHeadOptions head;
  HeadStart head_start = HeadStart::kUniform;
};

/// A backbone, and a head on the mean of its last map. Children: backbone and classifier.
class ConvolutionalClassifierNetwork : public PrecisionModule {
 public:
  /// Creates a network with `outputs` logits and uninitialized weights.
  ConvolutionalClassifierNetwork(const ConvolutionalClassifierConfig& config, std::int64_t outputs,
                                 const at::TensorOptions& options);
  /// Maps pixels (n, 3, h, w) to {"logits": (n, outputs), "features": (n, channels)}.
  NamedTensors forward(const at::Tensor& pixels) const;
  /// Returns the mean of each channel of the last map, of shape (n, channels).
  at::Tensor features(const at::Tensor& pixels) const;

  FeatureMaps& backbone() { return *backbone_; }
  ClassifierHead& head() { return *head_; }

  std::vector<std::string> notes;  ///< where its weights come from

 private:
  std::shared_ptr<FeatureMaps> backbone_;
  std::shared_ptr<ClassifierHead> head_;
};

/// A convolutional image classifier. build() creates a ConvolutionalClassifierNetwork.
class ConvolutionalClassifier : public Model, public ShrinkableModel, public NamedModel {
 public:
  /// `saved` contains the shapes and the digest of the weights; each build() reads their values
  /// again, so there is only one copy of them. If it is null, the weights are random.
  ConvolutionalClassifier(ConvolutionalClassifierConfig config,
                          std::shared_ptr<const SavedWeights> saved)
      : config_(std::move(config)), saved_(std::move(saved)) {}

  /// Throws if the saved weights no longer have the digest in `saved`.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image" and returns {"logits", "features"}.
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  bool mixes_samples() const override { return true; }
  bool builds_in_shards() const override { return true; }
  bool mixes_over_ranks() const override { return true; }
  bool has_ordinal_head(OrdinalHead /*head*/) const override { return true; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  std::string architecture() const override { return config_.name; }
  std::vector<std::string> notes(const torch::nn::Module& network) const override;

  const ConvolutionalClassifierConfig& config() const { return config_; }
  /// Throws like build() if the saved weights do not match the backbone. Reads only their shapes.
  void check_weights() const;

 private:
  /// Creates the network with uninitialized weights.
  std::shared_ptr<ConvolutionalClassifierNetwork> make(const DatasetDescription& data,
                                                       at::Device device) const;

  const ConvolutionalClassifierConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
};

/// True if the backbone has a module at that path: "layer1", "features.denseblock1".
bool has_module(const FeatureMaps& backbone, const std::string& path);

/// Reads the drop_path option of model.full, model.se_resnext or model.cnn into config.backbone;
/// config.backbone, name and frozen must be set. Reports an error if the network has no residual
/// blocks or all of them are frozen.
void read_drop_path(runner::ConfigReader& reader, ConvolutionalClassifierConfig& config);

/// Creates the stage of model.se_resnext or model.cnn. Reads the options that both kinds share,
/// except `frozen`, into `config`; config.backbone must be set. If options are invalid, returns all
/// their errors instead.
runner::Result<std::unique_ptr<runner::Stage>> convolutional_classifier_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config);

/// Creates the stage of a convolutional classifier from a complete `config`. If options read by
/// `reader` are invalid, returns all their errors instead.
runner::Result<std::unique_ptr<runner::Stage>> convolutional_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config);

}  // namespace stages

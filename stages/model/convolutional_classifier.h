#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/artifact/named_model.h"
#include "stages/model/classifier_head.h"
#include "stages/model/convolutional_backbone.h"
#include "stages/weights/saved_weights.h"

namespace stages {

/// What model.se_resnext and model.cnn have in common.
struct ConvolutionalClassifierConfig {
  std::string pointer;  ///< where the model's options stand, "/model"
  std::string name;     ///< of the backbone, in messages: "SE-ResNeXt", "densenet121"
  ConvolutionalBackbone backbone;
  std::optional<std::string> weights;        ///< a reference (saved_weights.h); nullopt: random
  std::optional<std::string> weights_entry;  ///< of them, where the file has several
  std::vector<std::string> frozen;           ///< paths of modules of the backbone, whose weights are not trained
  std::optional<std::int64_t> num_classes;   ///< nullopt: as many as the data's
  ClassifierHeadOptions head;
};

/// A backbone and a head on the mean of its last map. Children: backbone and classifier.
class ConvolutionalClassifierNetwork : public PrecisionModule {
 public:
  /// `height` and `width` of the images; the backbone suits them.
  ConvolutionalClassifierNetwork(const ConvolutionalClassifierConfig& config, std::int64_t outputs,
                                 const at::TensorOptions& options);
  /// Of pixels (n, 3, h, w): {"logits": (n, outputs), "features": (n, channels)}.
  NamedTensors forward(const at::Tensor& pixels) const;
  /// The mean over each map, (n, channels).
  at::Tensor features(const at::Tensor& pixels) const;

  FeatureMaps& backbone() { return *backbone_; }
  ClassifierHead& head() { return *head_; }

  std::vector<std::string> notes;  ///< where its weights are from

 private:
  std::shared_ptr<FeatureMaps> backbone_;
  std::shared_ptr<ClassifierHead> head_;
};

/// build() makes a ConvolutionalClassifierNetwork.
class ConvolutionalClassifier : public Model, public ShrinkableModel, public NamedModel {
 public:
  /// `saved` are the shapes of the weights and their digest: each build() reads the numbers anew, so that none are kept
  /// beside a network. null: they are random.
  ConvolutionalClassifier(ConvolutionalClassifierConfig config, std::shared_ptr<const SavedWeights> saved)
      : config_(std::move(config)), saved_(std::move(saved)) {}

  /// Throws where the saved weights have changed meanwhile.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data, std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image".
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  bool mixes_samples() const override { return true; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  std::string architecture() const override { return config_.name; }
  std::vector<std::string> notes(const torch::nn::Module& network) const override;

  const ConvolutionalClassifierConfig& config() const { return config_; }
  /// Throws as build() does where the saved weights do not fit the backbone; their shapes alone need be there.
  void check_weights() const;

 private:
  /// Without values.
  std::shared_ptr<ConvolutionalClassifierNetwork> make(const DatasetDescription& data, at::Device device) const;

  const ConvolutionalClassifierConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
};

/// Whether the backbone has a module of such a path: "layer1", "features.denseblock1".
bool has_module(const FeatureMaps& backbone, const std::string& path);

}  // namespace stages
